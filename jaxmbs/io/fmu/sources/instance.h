/* An instance of the FMU, without anything that depends on the version of FMI.
 *
 * All variables are numbers in one array, whose indices are the value references. First come those that the functions read:
 * the time, parameters, start values, inputs and states; then those that `fmu_evaluate` computes: derivatives and outputs.
 * model.h has their numbers, and the functions fmu_... are C code of jaxmbs.
 */
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fmu_close.h"
#include "fmu_directional.h"
#include "fmu_evaluate.h"
#include "fmu_start.h"
#include "fmu_step.h"
#include "model.h"

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define EXPORT __attribute__((visibility("default")))
#else
#define EXPORT
#endif

/* Longest message, with the terminating zero. */
#define MESSAGE_SIZE 512
/* A number of steps that exceeds a whole number by less than this fraction is rounded down; times that differ by less than
 * this fraction of a step are equal. */
#define ROUNDING 1e-9
/* Largest number of steps in a communication step. */
#define MAX_STEPS 1e12

/* The state of an instance; a copy of it is an "FMU state". */
typedef struct {
    double values[VARIABLES];
    double scales[SCALES]; /* units of gaps, set at the start */
    double carry[CARRY];   /* memory of the integrator */
    bool running;          /* initialisation has been left */
    bool assembled;        /* states and scales belong to parameters, start values and inputs */
    bool carried;          /* the memory of the integrator belongs to states and inputs */
    bool evaluated;        /* derivatives and outputs belong to states and inputs */
} State;

typedef struct Instance {
    State state;
    char name[MESSAGE_SIZE / 4];
    bool discarded; /* the last failure depends on states and inputs: others may succeed */
    void *environment;
    void (*logger)(void); /* callback of the importer, of the type of its version */
    void (*log)(struct Instance *instance, const char *text);
    union {
        struct { fmu_start_in in; fmu_start_out out; fmu_start_memory memory; } start;
        struct { fmu_close_in in; fmu_close_out out; fmu_close_memory memory; } close;
        struct { fmu_step_in in; fmu_step_out out; fmu_step_memory memory; } step;
        struct { fmu_evaluate_in in; fmu_evaluate_out out; fmu_evaluate_memory memory; } evaluate;
        struct { fmu_directional_in in; fmu_directional_out out; fmu_directional_memory memory; } directional;
    } work;
} Instance;

/* Log a message, and return false. */
static bool fail(Instance *instance, const char *format, ...) {
    char text[MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    instance->log(instance, text);
    instance->discarded = false;
    return false;
}

/* Return true for the status 0; log the name of any other, which discards a step or a trial state. */
static bool good(Instance *instance, int64_t status, const char *action) {
    if (status == 0) return true;
    const char *name = status > 0 && status < STATUSES ? STATUS_NAMES[status] : "unknown";
    fail(instance, "%s at t = %.9g: status %d, %s", action, instance->state.values[0], (int)status, name);
    instance->discarded = instance->state.running;
    return false;
}

/* Bring all variables to their start values. */
static void reset(Instance *instance) {
    memset(&instance->state, 0, sizeof instance->state);
    memcpy(instance->state.values, START_VALUES, sizeof START_VALUES);
}

/* Return a new instance; NULL for another token than that of this FMU, or without memory. */
static Instance *new_instance(const char *name, const char *token, void *environment, void (*logger)(void),
                              void (*log)(Instance *, const char *)) {
    Instance *instance = calloc(1, sizeof *instance);
    if (instance == NULL) return NULL;
    snprintf(instance->name, sizeof instance->name, "%s", name == NULL ? MODEL_NAME : name);
    instance->environment = environment;
    instance->logger = logger;
    instance->log = log;
    if (token == NULL || strcmp(token, TOKEN) != 0) {
        fail(instance, "the GUID or instantiation token is not that of this FMU, %s", TOKEN);
        free(instance);
        return NULL;
    }
    reset(instance);
    return instance;
}

/* Find the configuration nearest to the start values that satisfies the constraints, and velocities that they allow. */
static bool assemble(Instance *instance) {
    State *state = &instance->state;
    if (state->assembled) return true;
    memcpy(instance->work.start.in.values, state->values, sizeof instance->work.start.in.values);
    fmu_start(&instance->work.start.in, &instance->work.start.out, &instance->work.start.memory);
    if (!good(instance, instance->work.start.out.status, "assembly")) return false;
    memcpy(&state->values[FIRST_STATE], instance->work.start.out.states, sizeof instance->work.start.out.states);
    memcpy(state->scales, instance->work.start.out.scales, sizeof state->scales);
    state->assembled = true;
    state->carried = state->evaluated = false;
    return true;
}

/* Compute derivatives and outputs. */
static bool evaluate(Instance *instance) {
    State *state = &instance->state;
    if (!assemble(instance)) return false;
    if (state->evaluated) return true;
    memcpy(instance->work.evaluate.in.values, state->values, sizeof instance->work.evaluate.in.values);
    memcpy(instance->work.evaluate.in.scales, state->scales, sizeof state->scales);
    fmu_evaluate(&instance->work.evaluate.in, &instance->work.evaluate.out, &instance->work.evaluate.memory);
    if (!good(instance, instance->work.evaluate.out.status, "evaluation")) return false;
    memcpy(&state->values[KNOWN], instance->work.evaluate.out.unknowns, sizeof instance->work.evaluate.out.unknowns);
    state->evaluated = true;
    return true;
}

/* Change the value of the time, an input or a state. */
static void change(State *state, size_t index, double value) {
    if (state->values[index] == value) return;
    state->values[index] = value;
    state->carried = state->evaluated = false;
    if (!state->running) state->assembled = false;
}

static bool get_values(Instance *instance, const uint32_t references[], size_t count, double values[]) {
    for (size_t k = 0; k < count; k++) {
        const size_t index = references[k];
        if (index >= VARIABLES) return fail(instance, "there is no variable with the reference %u", references[k]);
        if (index >= FIRST_STATE && !assemble(instance)) return false;
        if (index >= KNOWN && !evaluate(instance)) return false;
        values[k] = instance->state.values[index];
    }
    return true;
}

static bool set_values(Instance *instance, const uint32_t references[], size_t count, const double values[]) {
    for (size_t k = 0; k < count; k++) {
        const size_t index = references[k];
        if (index >= VARIABLES) return fail(instance, "there is no variable with the reference %u", references[k]);
        if (index == 0 || index >= FIRST_STATE) return fail(instance, "%s cannot be set", NAMES[index]);
        if (index < FIRST_INPUT && instance->state.running)
            return fail(instance, "%s can be set before the end of initialisation only", NAMES[index]);
        change(&instance->state, index, values[k]);
    }
    return true;
}

static bool leave_initialisation(Instance *instance) {
    if (!assemble(instance)) return false;
    instance->state.running = true;
    return true;
}

static bool set_states(Instance *instance, const double states[], size_t count) {
    if (count != STATES) return fail(instance, "there are %d continuous states", (int)STATES);
    for (size_t k = 0; k < STATES; k++) change(&instance->state, FIRST_STATE + k, states[k]);
    return true;
}

static bool get_states(Instance *instance, double states[], size_t count) {
    if (count != STATES) return fail(instance, "there are %d continuous states", (int)STATES);
    if (!assemble(instance)) return false;
    memcpy(states, &instance->state.values[FIRST_STATE], STATES * sizeof *states);
    return true;
}

static bool get_derivatives(Instance *instance, double derivatives[], size_t count) {
    if (count != STATES) return fail(instance, "there are %d continuous states", (int)STATES);
    if (!evaluate(instance)) return false;
    memcpy(derivatives, &instance->state.values[KNOWN], STATES * sizeof *derivatives);
    return true;
}

/* Begin the integration anew at the present states and inputs, with steps of a length. */
static bool begin(Instance *instance, double length) {
    State *state = &instance->state;
    memcpy(instance->work.close.in.values, state->values, sizeof instance->work.close.in.values);
    memcpy(instance->work.close.in.scales, state->scales, sizeof state->scales);
    instance->work.close.in.length = length;
    fmu_close(&instance->work.close.in, &instance->work.close.out, &instance->work.close.memory);
    if (!good(instance, instance->work.close.out.status, "closing")) return false;
    memcpy(state->carry, instance->work.close.out.carry, sizeof state->carry);
    state->carried = true;
    return true;
}

/* Take one step to the time `end`; motions that are inputs go on with their accelerations. */
static bool step(Instance *instance, double length, double end) {
    State *state = &instance->state;
    memcpy(instance->work.step.in.values, state->values, sizeof instance->work.step.in.values);
    memcpy(instance->work.step.in.scales, state->scales, sizeof state->scales);
    memcpy(instance->work.step.in.carry, state->carry, sizeof state->carry);
    instance->work.step.in.length = length;
    fmu_step(&instance->work.step.in, &instance->work.step.out, &instance->work.step.memory);
    if (!good(instance, instance->work.step.out.status, "step")) return false;
    memcpy(state->carry, instance->work.step.out.carry, sizeof state->carry);
    memcpy(&state->values[FIRST_STATE], instance->work.step.out.states, sizeof instance->work.step.out.states);
    for (size_t k = FIRST_INPUT; k < FIRST_FORCE; k += 3) {
        double *motion = &state->values[k];
        motion[0] += length * (motion[1] + length / 2 * motion[2]);
        motion[1] += length * motion[2];
    }
    state->values[0] = end;
    return true;
}

/* Advance from t by a communication step, which is divided into equal steps that are not longer than STEP. */
static bool advance(Instance *instance, double t, double length) {
    State *state = &instance->state;
    if (!state->running) return fail(instance, "a step before the end of initialisation");
    const double count = fmax(1, ceil(length / STEP * (1 - ROUNDING)));
    if (!(length >= 0 && count < MAX_STEPS))
        return fail(instance, "a communication step of %g cannot be divided into steps of %g", length, STEP);
    if (length == 0) return true;
    if (fabs(t - state->values[0]) > ROUNDING * length) state->carried = false;
    state->values[0] = t;
    state->evaluated = false;
    if (!state->carried && !begin(instance, length / count)) return false;
    for (double k = 1; k <= count; k++)
        if (!step(instance, length / count, k < count ? t + k * (length / count) : t + length)) return false;
    return true;
}

/* Derivatives of unknowns, which are derivatives or outputs, along a change of knowns, which are states and inputs. */
static bool differentiate(Instance *instance, const uint32_t unknowns[], size_t unknown_count, const uint32_t knowns[],
                          size_t known_count, const double seed[], double sensitivity[]) {
    State *state = &instance->state;
    if (!state->running) return fail(instance, "directional derivatives before the end of initialisation");
    fmu_directional_in *in = &instance->work.directional.in;
    memcpy(in->values, state->values, sizeof in->values);
    memcpy(in->scales, state->scales, sizeof state->scales);
    memset(in->seed, 0, sizeof in->seed);
    for (size_t k = 0; k < known_count; k++) {
        if (knowns[k] >= KNOWN) return fail(instance, "no derivatives by the variable with the reference %u", knowns[k]);
        in->seed[knowns[k]] += seed[k];
    }
    fmu_directional(in, &instance->work.directional.out, &instance->work.directional.memory);
    if (!good(instance, instance->work.directional.out.status, "directional derivative")) return false;
    for (size_t k = 0; k < unknown_count; k++) {
        if (unknowns[k] < KNOWN || unknowns[k] >= VARIABLES)
            return fail(instance, "no derivatives of the variable with the reference %u", unknowns[k]);
        sensitivity[k] = instance->work.directional.out.sensitivity[unknowns[k] - KNOWN];
    }
    return true;
}

/* Copy the state into a new FMU state, or into one that exists. */
static bool copy_state(Instance *instance, void **copy) {
    if (*copy == NULL) *copy = malloc(sizeof(State));
    if (*copy == NULL) return fail(instance, "no memory for an FMU state");
    memcpy(*copy, &instance->state, sizeof(State));
    return true;
}
