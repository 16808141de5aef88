/* The functions of FMI 3.0, for model exchange and co-simulation. */
#include "instance.h"

typedef float fmi3Float32;
typedef double fmi3Float64;
typedef int8_t fmi3Int8;
typedef uint8_t fmi3UInt8;
typedef int16_t fmi3Int16;
typedef uint16_t fmi3UInt16;
typedef int32_t fmi3Int32;
typedef uint32_t fmi3UInt32;
typedef int64_t fmi3Int64;
typedef uint64_t fmi3UInt64;
typedef bool fmi3Boolean;
typedef bool fmi3Clock;
typedef uint8_t fmi3Byte;
typedef const char *fmi3String;
typedef const uint8_t *fmi3Binary;
typedef uint32_t fmi3ValueReference;
typedef void *fmi3Instance;
typedef void *fmi3InstanceEnvironment;
typedef void *fmi3FMUState;
typedef enum { fmi3OK, fmi3Warning, fmi3Discard, fmi3Error, fmi3Fatal } fmi3Status;
typedef enum { fmi3Independent, fmi3Constant, fmi3Fixed, fmi3Tunable, fmi3Discrete, fmi3Dependent } fmi3DependencyKind;
typedef enum {
    fmi3IntervalNotYetKnown, fmi3IntervalUnchanged, fmi3IntervalChanged
} fmi3IntervalQualifier;
typedef void (*fmi3LogMessageCallback)(fmi3InstanceEnvironment, fmi3Status, fmi3String, fmi3String);
typedef void (*fmi3ClockUpdateCallback)(fmi3InstanceEnvironment);
typedef void (*fmi3LockPreemptionCallback)(void);
typedef void (*fmi3UnlockPreemptionCallback)(void);
typedef void (*fmi3IntermediateUpdateCallback)(fmi3InstanceEnvironment, fmi3Float64, fmi3Boolean, fmi3Boolean, fmi3Boolean,
                                               fmi3Boolean, fmi3Boolean *, fmi3Float64 *);

static fmi3Status result(Instance *instance, bool success) {
    return success ? fmi3OK : instance->discarded ? fmi3Discard : fmi3Error;
}

/* Result of a function for things of a kind, of which there are none. */
static fmi3Status none(fmi3Instance c, size_t count) {
    return result(c, count == 0 || fail(c, "all variables are of the type Float64, and there are no clocks"));
}

static void log_text(Instance *instance, const char *text) {
    if (instance->logger == NULL) return;
    ((fmi3LogMessageCallback)instance->logger)(instance->environment, fmi3Error, "logStatusError", text);
}

EXPORT const char *fmi3GetVersion(void) { return "3.0"; }
EXPORT fmi3Status fmi3SetDebugLogging(fmi3Instance c, fmi3Boolean on, size_t count, const fmi3String categories[]) {
    (void)c, (void)on, (void)count, (void)categories;
    return fmi3OK;
}

EXPORT fmi3Instance fmi3InstantiateModelExchange(fmi3String name, fmi3String token, fmi3String resources,
                                                 fmi3Boolean visible, fmi3Boolean logging,
                                                 fmi3InstanceEnvironment environment, fmi3LogMessageCallback log) {
    (void)resources, (void)visible, (void)logging;
    return new_instance(name, token, environment, (void (*)(void))log, log_text);
}
EXPORT fmi3Instance fmi3InstantiateCoSimulation(fmi3String name, fmi3String token, fmi3String resources,
                                                fmi3Boolean visible, fmi3Boolean logging, fmi3Boolean event_mode,
                                                fmi3Boolean early_return, const fmi3ValueReference intermediate[],
                                                size_t intermediate_count, fmi3InstanceEnvironment environment,
                                                fmi3LogMessageCallback log, fmi3IntermediateUpdateCallback update) {
    (void)resources, (void)visible, (void)logging, (void)event_mode, (void)early_return, (void)intermediate;
    (void)intermediate_count, (void)update;
    return new_instance(name, token, environment, (void (*)(void))log, log_text);
}
EXPORT fmi3Instance fmi3InstantiateScheduledExecution(fmi3String name, fmi3String token, fmi3String resources,
                                                      fmi3Boolean visible, fmi3Boolean logging,
                                                      fmi3InstanceEnvironment environment, fmi3LogMessageCallback log,
                                                      fmi3ClockUpdateCallback update, fmi3LockPreemptionCallback lock,
                                                      fmi3UnlockPreemptionCallback unlock) {
    (void)name, (void)token, (void)resources, (void)visible, (void)logging, (void)update, (void)lock, (void)unlock;
    if (log != NULL) log(environment, fmi3Error, "logStatusError", "there is no scheduled execution");
    return NULL;
}
EXPORT void fmi3FreeInstance(fmi3Instance c) { free(c); }

EXPORT fmi3Status fmi3EnterInitializationMode(fmi3Instance c, fmi3Boolean has_tolerance, fmi3Float64 tolerance,
                                              fmi3Float64 start, fmi3Boolean has_stop, fmi3Float64 stop) {
    (void)has_tolerance, (void)tolerance, (void)has_stop, (void)stop;
    change(&((Instance *)c)->state, 0, start);
    return fmi3OK;
}
EXPORT fmi3Status fmi3ExitInitializationMode(fmi3Instance c) { return result(c, leave_initialisation(c)); }
EXPORT fmi3Status fmi3EnterEventMode(fmi3Instance c) { return (void)c, fmi3OK; }
EXPORT fmi3Status fmi3Terminate(fmi3Instance c) { return (void)c, fmi3OK; }
EXPORT fmi3Status fmi3Reset(fmi3Instance c) { return reset(c), fmi3OK; }
EXPORT fmi3Status fmi3EnterConfigurationMode(fmi3Instance c) { return (void)c, fmi3OK; }
EXPORT fmi3Status fmi3ExitConfigurationMode(fmi3Instance c) { return (void)c, fmi3OK; }

EXPORT fmi3Status fmi3GetFloat64(fmi3Instance c, const fmi3ValueReference r[], size_t n, fmi3Float64 x[], size_t k) {
    return result(c, k == n ? get_values(c, r, n, x) : fail(c, "as many values as references are needed"));
}
EXPORT fmi3Status fmi3SetFloat64(fmi3Instance c, const fmi3ValueReference r[], size_t n, const fmi3Float64 x[], size_t k) {
    return result(c, k == n ? set_values(c, r, n, x) : fail(c, "as many values as references are needed"));
}
#define NO_VARIABLES(type)                                                                                               \
    EXPORT fmi3Status fmi3Get##type(fmi3Instance c, const fmi3ValueReference r[], size_t n, fmi3##type x[], size_t k) {  \
        return (void)r, (void)x, (void)k, none(c, n);                                                                    \
    }                                                                                                                    \
    EXPORT fmi3Status fmi3Set##type(fmi3Instance c, const fmi3ValueReference r[], size_t n, const fmi3##type x[],        \
                                    size_t k) {                                                                          \
        return (void)r, (void)x, (void)k, none(c, n);                                                                    \
    }
NO_VARIABLES(Float32)
NO_VARIABLES(Int8)
NO_VARIABLES(UInt8)
NO_VARIABLES(Int16)
NO_VARIABLES(UInt16)
NO_VARIABLES(Int32)
NO_VARIABLES(UInt32)
NO_VARIABLES(Int64)
NO_VARIABLES(UInt64)
NO_VARIABLES(Boolean)
NO_VARIABLES(String)
EXPORT fmi3Status fmi3GetBinary(fmi3Instance c, const fmi3ValueReference r[], size_t n, size_t sizes[], fmi3Binary x[],
                                size_t k) {
    return (void)r, (void)sizes, (void)x, (void)k, none(c, n);
}
EXPORT fmi3Status fmi3SetBinary(fmi3Instance c, const fmi3ValueReference r[], size_t n, const size_t sizes[],
                                const fmi3Binary x[], size_t k) {
    return (void)r, (void)sizes, (void)x, (void)k, none(c, n);
}

/* Clocks */

EXPORT fmi3Status fmi3GetClock(fmi3Instance c, const fmi3ValueReference r[], size_t n, fmi3Clock x[]) {
    return (void)r, (void)x, none(c, n);
}
EXPORT fmi3Status fmi3SetClock(fmi3Instance c, const fmi3ValueReference r[], size_t n, const fmi3Clock x[]) {
    return (void)r, (void)x, none(c, n);
}
EXPORT fmi3Status fmi3GetIntervalDecimal(fmi3Instance c, const fmi3ValueReference r[], size_t n, fmi3Float64 intervals[],
                                         fmi3IntervalQualifier qualifiers[]) {
    return (void)r, (void)intervals, (void)qualifiers, none(c, n);
}
EXPORT fmi3Status fmi3GetIntervalFraction(fmi3Instance c, const fmi3ValueReference r[], size_t n, fmi3UInt64 counters[],
                                          fmi3UInt64 resolutions[], fmi3IntervalQualifier qualifiers[]) {
    return (void)r, (void)counters, (void)resolutions, (void)qualifiers, none(c, n);
}
EXPORT fmi3Status fmi3GetShiftDecimal(fmi3Instance c, const fmi3ValueReference r[], size_t n, fmi3Float64 shifts[]) {
    return (void)r, (void)shifts, none(c, n);
}
EXPORT fmi3Status fmi3GetShiftFraction(fmi3Instance c, const fmi3ValueReference r[], size_t n, fmi3UInt64 counters[],
                                       fmi3UInt64 resolutions[]) {
    return (void)r, (void)counters, (void)resolutions, none(c, n);
}
EXPORT fmi3Status fmi3SetIntervalDecimal(fmi3Instance c, const fmi3ValueReference r[], size_t n,
                                         const fmi3Float64 intervals[]) {
    return (void)r, (void)intervals, none(c, n);
}
EXPORT fmi3Status fmi3SetIntervalFraction(fmi3Instance c, const fmi3ValueReference r[], size_t n,
                                          const fmi3UInt64 counters[], const fmi3UInt64 resolutions[]) {
    return (void)r, (void)counters, (void)resolutions, none(c, n);
}
EXPORT fmi3Status fmi3SetShiftDecimal(fmi3Instance c, const fmi3ValueReference r[], size_t n, const fmi3Float64 shifts[]) {
    return (void)r, (void)shifts, none(c, n);
}
EXPORT fmi3Status fmi3SetShiftFraction(fmi3Instance c, const fmi3ValueReference r[], size_t n, const fmi3UInt64 counters[],
                                       const fmi3UInt64 resolutions[]) {
    return (void)r, (void)counters, (void)resolutions, none(c, n);
}
EXPORT fmi3Status fmi3ActivateModelPartition(fmi3Instance c, fmi3ValueReference clock, fmi3Float64 t) {
    return (void)clock, (void)t, none(c, 1);
}

/* Dependencies, states and derivatives */

EXPORT fmi3Status fmi3GetNumberOfVariableDependencies(fmi3Instance c, fmi3ValueReference r, size_t *n) {
    (void)r, (void)n;
    return result(c, fail(c, "dependencies are not recorded: a variable may depend on all others"));
}
EXPORT fmi3Status fmi3GetVariableDependencies(fmi3Instance c, fmi3ValueReference r, size_t elements[],
                                              fmi3ValueReference independents[], size_t elements_of_independents[],
                                              fmi3DependencyKind kinds[], size_t n) {
    (void)r, (void)elements, (void)independents, (void)elements_of_independents, (void)kinds, (void)n;
    return result(c, fail(c, "dependencies are not recorded: a variable may depend on all others"));
}
EXPORT fmi3Status fmi3GetFMUState(fmi3Instance c, fmi3FMUState *state) { return result(c, copy_state(c, state)); }
EXPORT fmi3Status fmi3SetFMUState(fmi3Instance c, fmi3FMUState state) {
    if (state == NULL) return result(c, fail(c, "there is no FMU state"));
    memcpy(&((Instance *)c)->state, state, sizeof(State));
    return fmi3OK;
}
EXPORT fmi3Status fmi3FreeFMUState(fmi3Instance c, fmi3FMUState *state) {
    (void)c;
    if (state == NULL) return fmi3OK;
    free(*state);
    *state = NULL;
    return fmi3OK;
}
EXPORT fmi3Status fmi3SerializedFMUStateSize(fmi3Instance c, fmi3FMUState state, size_t *size) {
    (void)c, (void)state;
    *size = sizeof(State);
    return fmi3OK;
}
EXPORT fmi3Status fmi3SerializeFMUState(fmi3Instance c, fmi3FMUState state, fmi3Byte bytes[], size_t size) {
    if (size < sizeof(State)) return result(c, fail(c, "an FMU state has %d bytes", (int)sizeof(State)));
    memcpy(bytes, state, sizeof(State));
    return fmi3OK;
}
EXPORT fmi3Status fmi3DeserializeFMUState(fmi3Instance c, const fmi3Byte bytes[], size_t size, fmi3FMUState *state) {
    if (size != sizeof(State)) return result(c, fail(c, "an FMU state has %d bytes", (int)sizeof(State)));
    *state = NULL;
    if (!copy_state(c, state)) return fmi3Error;
    memcpy(*state, bytes, sizeof(State));
    return fmi3OK;
}
EXPORT fmi3Status fmi3GetDirectionalDerivative(fmi3Instance c, const fmi3ValueReference unknowns[], size_t unknown_count,
                                               const fmi3ValueReference knowns[], size_t known_count,
                                               const fmi3Float64 seed[], size_t seed_count, fmi3Float64 sensitivity[],
                                               size_t sensitivity_count) {
    if (seed_count != known_count || sensitivity_count != unknown_count)
        return result(c, fail(c, "a directional derivative needs one number for each variable"));
    return result(c, differentiate(c, unknowns, unknown_count, knowns, known_count, seed, sensitivity));
}
EXPORT fmi3Status fmi3GetAdjointDerivative(fmi3Instance c, const fmi3ValueReference unknowns[], size_t unknown_count,
                                           const fmi3ValueReference knowns[], size_t known_count, const fmi3Float64 seed[],
                                           size_t seed_count, fmi3Float64 sensitivity[], size_t sensitivity_count) {
    (void)unknowns, (void)unknown_count, (void)knowns, (void)known_count, (void)seed, (void)seed_count;
    (void)sensitivity, (void)sensitivity_count;
    return result(c, fail(c, "there are no adjoint derivatives"));
}

/* Model exchange */

EXPORT fmi3Status fmi3EvaluateDiscreteStates(fmi3Instance c) { return (void)c, fmi3OK; }
EXPORT fmi3Status fmi3UpdateDiscreteStates(fmi3Instance c, fmi3Boolean *again, fmi3Boolean *terminate,
                                           fmi3Boolean *nominals_changed, fmi3Boolean *values_changed,
                                           fmi3Boolean *has_next, fmi3Float64 *next) {
    (void)c;
    *again = *terminate = *nominals_changed = *values_changed = *has_next = false;
    *next = 0;
    return fmi3OK;
}
EXPORT fmi3Status fmi3EnterContinuousTimeMode(fmi3Instance c) { return (void)c, fmi3OK; }
EXPORT fmi3Status fmi3CompletedIntegratorStep(fmi3Instance c, fmi3Boolean no_return, fmi3Boolean *event,
                                              fmi3Boolean *terminate) {
    (void)c, (void)no_return;
    *event = *terminate = false;
    return fmi3OK;
}
EXPORT fmi3Status fmi3SetTime(fmi3Instance c, fmi3Float64 t) { return change(&((Instance *)c)->state, 0, t), fmi3OK; }
EXPORT fmi3Status fmi3SetContinuousStates(fmi3Instance c, const fmi3Float64 x[], size_t n) {
    return result(c, set_states(c, x, n));
}
EXPORT fmi3Status fmi3GetContinuousStates(fmi3Instance c, fmi3Float64 x[], size_t n) { return result(c, get_states(c, x, n)); }
EXPORT fmi3Status fmi3GetContinuousStateDerivatives(fmi3Instance c, fmi3Float64 x[], size_t n) {
    return result(c, get_derivatives(c, x, n));
}
EXPORT fmi3Status fmi3GetEventIndicators(fmi3Instance c, fmi3Float64 z[], size_t n) {
    (void)z;
    return result(c, n == 0 || fail(c, "there are no event indicators"));
}
EXPORT fmi3Status fmi3GetNominalsOfContinuousStates(fmi3Instance c, fmi3Float64 x[], size_t n) {
    (void)c;
    for (size_t k = 0; k < n; k++) x[k] = 1;
    return fmi3OK;
}
EXPORT fmi3Status fmi3GetNumberOfEventIndicators(fmi3Instance c, size_t *n) { return (void)c, *n = 0, fmi3OK; }
EXPORT fmi3Status fmi3GetNumberOfContinuousStates(fmi3Instance c, size_t *n) { return (void)c, *n = STATES, fmi3OK; }

/* Co-simulation */

EXPORT fmi3Status fmi3EnterStepMode(fmi3Instance c) { return (void)c, fmi3OK; }
EXPORT fmi3Status fmi3GetOutputDerivatives(fmi3Instance c, const fmi3ValueReference r[], size_t n, const fmi3Int32 orders[],
                                           fmi3Float64 x[], size_t k) {
    (void)r, (void)orders, (void)x, (void)k;
    return result(c, n == 0 || fail(c, "there are no derivatives of outputs"));
}
EXPORT fmi3Status fmi3DoStep(fmi3Instance c, fmi3Float64 t, fmi3Float64 length, fmi3Boolean no_return,
                             fmi3Boolean *event, fmi3Boolean *terminate, fmi3Boolean *early, fmi3Float64 *reached) {
    (void)no_return;
    const bool success = advance(c, t, length);
    *event = *terminate = *early = false;
    *reached = ((Instance *)c)->state.values[0];
    return result(c, success);
}
