// The four-bar of models.py in Pinocchio: two trees, crank with coupler and rocker, whose loop is closed by a point
// constraint; RK4 with four calls of `constraintDynamics`, all in C++.

#include <pinocchio/algorithm/constrained-dynamics.hpp>
#include <pinocchio/algorithm/proximal.hpp>
#include <pinocchio/multibody.hpp>

namespace pin = pinocchio;
using Constraints = PINOCCHIO_STD_VECTOR_WITH_EIGEN_ALLOCATOR(pin::RigidConstraintModel);
using ConstraintData = PINOCCHIO_STD_VECTOR_WITH_EIGEN_ALLOCATOR(pin::RigidConstraintData);

static pin::SE3 at(double x) { return pin::SE3(Eigen::Matrix3d::Identity(), Eigen::Vector3d(x, 0, 0)); }

static pin::JointIndex add_bar(pin::Model &model, pin::JointIndex parent, double x, double length, const char *name) {
    const pin::JointIndex joint = model.addJoint(parent, pin::JointModelRZ(), at(x), name);
    const double inertia = length * length * length / 12;
    const Eigen::Matrix3d matrix = Eigen::Vector3d(1e-6 * inertia, inertia, inertia).asDiagonal();
    model.appendBodyToJoint(joint, pin::Inertia(length, Eigen::Vector3d(length / 2, 0, 0), matrix), pin::SE3::Identity());
    return joint;
}

// lengths (4, batch) of crank, coupler, rocker, ground; q and v (3, batch), joint angles and rates, changed in place.
extern "C" void rollout(long batch, long steps, double h, const double *lengths, double *q, double *v) {
    for (long k = 0; k < batch; k++) {
        const double crank = lengths[k], coupler = lengths[batch + k], rocker = lengths[2 * batch + k];
        pin::Model model;
        model.gravity.linear() = Eigen::Vector3d(0, -9.81, 0);
        const pin::JointIndex first = add_bar(model, 0, 0, crank, "crank");
        const pin::JointIndex middle = add_bar(model, first, crank, coupler, "coupler");
        const pin::JointIndex last = add_bar(model, 0, lengths[3 * batch + k], rocker, "rocker");
        Constraints constraints;
        constraints.emplace_back(pin::CONTACT_3D, model, middle, at(coupler), last, at(rocker), pin::LOCAL);
        ConstraintData constraint_data;
        constraint_data.emplace_back(constraints[0]);
        pin::Data data(model);
        pin::initConstraintDynamics(model, data, constraints, constraint_data);
        pin::ProximalSettings settings(1e-12, 1e-12, 10);

        const Eigen::Vector3d torque = Eigen::Vector3d::Zero();
        Eigen::VectorXd x(3), w(3);
        for (int i = 0; i < 3; i++) x[i] = q[i * batch + k], w[i] = v[i * batch + k];
        const auto acceleration = [&](const Eigen::VectorXd &x, const Eigen::VectorXd &w) -> Eigen::Vector3d {
            return pin::constraintDynamics(model, data, x, w, torque, constraints, constraint_data, settings);
        };
        for (long step = 0; step < steps; step++) {
            const Eigen::Vector3d a_1 = acceleration(x, w);
            const Eigen::Vector3d w_2 = w + h / 2 * a_1, a_2 = acceleration(x + h / 2 * w, w_2);
            const Eigen::Vector3d w_3 = w + h / 2 * a_2, a_3 = acceleration(x + h / 2 * w_2, w_3);
            const Eigen::Vector3d w_4 = w + h * a_3, a_4 = acceleration(x + h * w_3, w_4);
            x += h / 6 * (w + 2 * w_2 + 2 * w_3 + w_4);
            w += h / 6 * (a_1 + 2 * a_2 + 2 * a_3 + a_4);
        }
        for (int i = 0; i < 3; i++) q[i * batch + k] = x[i], v[i * batch + k] = w[i];
    }
}
