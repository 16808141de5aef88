// An open chain of rods in Pinocchio, planar or with alternating axes: RK4 with four calls of the articulated-body
// algorithm `aba`, all in C++. Joints are added in the order of the chain.

#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/multibody.hpp>

namespace pin = pinocchio;

// lengths (links, batch); q and v (links, batch), joint angles and rates, changed in place.
extern "C" void rollout(long links, long spatial, long batch, long steps, double h, const double *lengths, double *q,
                        double *v) {
    for (long k = 0; k < batch; k++) {
        pin::Model model;
        model.gravity.linear() = spatial ? Eigen::Vector3d(0, 0, -9.81) : Eigen::Vector3d(0, -9.81, 0);
        pin::JointIndex joint = 0;
        double end = 0;
        for (long i = 0; i < links; i++) {
            const double length = lengths[i * batch + k], across = length * length * length / 12;
            const pin::SE3 place(Eigen::Matrix3d::Identity(), Eigen::Vector3d(end, 0, 0));
            const std::string name = "joint" + std::to_string(i);
            joint = spatial && i % 2 ? model.addJoint(joint, pin::JointModelRY(), place, name)
                                     : model.addJoint(joint, pin::JointModelRZ(), place, name);
            const Eigen::Matrix3d inertia = Eigen::Vector3d(0.01 * across, across, across).asDiagonal();
            model.appendBodyToJoint(joint, pin::Inertia(length, Eigen::Vector3d(length / 2, 0, 0), inertia),
                                    pin::SE3::Identity());
            end = length;
        }
        pin::Data data(model);
        const Eigen::VectorXd torque = Eigen::VectorXd::Zero(links);
        Eigen::VectorXd x(links), w(links);
        for (long i = 0; i < links; i++) x[i] = q[i * batch + k], w[i] = v[i * batch + k];
        const auto acceleration = [&](const Eigen::VectorXd &x, const Eigen::VectorXd &w) -> Eigen::VectorXd {
            return pin::aba(model, data, x, w, torque);
        };
        for (long step = 0; step < steps; step++) {
            const Eigen::VectorXd a_1 = acceleration(x, w);
            const Eigen::VectorXd w_2 = w + h / 2 * a_1, a_2 = acceleration(x + h / 2 * w, w_2);
            const Eigen::VectorXd w_3 = w + h / 2 * a_2, a_3 = acceleration(x + h / 2 * w_2, w_3);
            const Eigen::VectorXd w_4 = w + h * a_3, a_4 = acceleration(x + h * w_3, w_4);
            x += h / 6 * (w + 2 * w_2 + 2 * w_3 + w_4);
            w += h / 6 * (a_1 + 2 * a_2 + 2 * a_3 + a_4);
        }
        for (long i = 0; i < links; i++) q[i * batch + k] = x[i], v[i * batch + k] = w[i];
    }
}
