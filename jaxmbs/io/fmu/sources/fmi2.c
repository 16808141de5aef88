/* The functions of FMI 2.0, for model exchange and co-simulation. */
#include "instance.h"

typedef int fmi2Boolean;
typedef int fmi2Integer;
typedef double fmi2Real;
typedef const char *fmi2String;
typedef unsigned int fmi2ValueReference;
typedef void *fmi2Component;
typedef void *fmi2ComponentEnvironment;
typedef void *fmi2FMUstate;
typedef char fmi2Byte;
typedef enum { fmi2OK, fmi2Warning, fmi2Discard, fmi2Error, fmi2Fatal, fmi2Pending } fmi2Status;
typedef enum { fmi2ModelExchange, fmi2CoSimulation } fmi2Type;
typedef enum { fmi2DoStepStatus, fmi2PendingStatus, fmi2LastSuccessfulTime, fmi2Terminated } fmi2StatusKind;
typedef void (*fmi2CallbackLogger)(fmi2ComponentEnvironment, fmi2String, fmi2Status, fmi2String, fmi2String, ...);
typedef struct {
    fmi2CallbackLogger logger;
    void *(*allocateMemory)(size_t, size_t);
    void (*freeMemory)(void *);
    void (*stepFinished)(fmi2ComponentEnvironment, fmi2Status);
    fmi2ComponentEnvironment componentEnvironment;
} fmi2CallbackFunctions;
typedef struct {
    fmi2Boolean newDiscreteStatesNeeded;
    fmi2Boolean terminateSimulation;
    fmi2Boolean nominalsOfContinuousStatesChanged;
    fmi2Boolean valuesOfContinuousStatesChanged;
    fmi2Boolean nextEventTimeDefined;
    fmi2Real nextEventTime;
} fmi2EventInfo;

static fmi2Status result(Instance *instance, bool success) {
    return success ? fmi2OK : instance->discarded ? fmi2Discard : fmi2Error;
}

/* Result of a function that gets or sets variables of a type that none has. */
static fmi2Status none(fmi2Component c, size_t count) {
    return result(c, count == 0 || fail(c, "all variables are of the type Real"));
}

static void log_text(Instance *instance, const char *text) {
    if (instance->logger == NULL) return;
    char safe[MESSAGE_SIZE]; /* the message is a format */
    size_t k = 0;
    for (; text[k] != 0 && k < MESSAGE_SIZE - 1; k++) safe[k] = text[k] == '%' || text[k] == '#' ? '_' : text[k];
    safe[k] = 0;
    ((fmi2CallbackLogger)instance->logger)(instance->environment, instance->name, fmi2Error, "logStatusError", safe);
}

EXPORT const char *fmi2GetTypesPlatform(void) { return "default"; }
EXPORT const char *fmi2GetVersion(void) { return "2.0"; }

EXPORT fmi2Component fmi2Instantiate(fmi2String name, fmi2Type type, fmi2String guid, fmi2String resources,
                                     const fmi2CallbackFunctions *functions, fmi2Boolean visible, fmi2Boolean logging) {
    (void)type, (void)resources, (void)visible, (void)logging;
    if (functions == NULL) return NULL;
    return new_instance(name, guid, functions->componentEnvironment, (void (*)(void))functions->logger, log_text);
}
EXPORT void fmi2FreeInstance(fmi2Component c) { free(c); }
EXPORT fmi2Status fmi2SetDebugLogging(fmi2Component c, fmi2Boolean on, size_t count, const fmi2String categories[]) {
    (void)c, (void)on, (void)count, (void)categories;
    return fmi2OK;
}

EXPORT fmi2Status fmi2SetupExperiment(fmi2Component c, fmi2Boolean has_tolerance, fmi2Real tolerance, fmi2Real start,
                                      fmi2Boolean has_stop, fmi2Real stop) {
    (void)has_tolerance, (void)tolerance, (void)has_stop, (void)stop;
    change(&((Instance *)c)->state, 0, start);
    return fmi2OK;
}
EXPORT fmi2Status fmi2EnterInitializationMode(fmi2Component c) { return (void)c, fmi2OK; }
EXPORT fmi2Status fmi2ExitInitializationMode(fmi2Component c) { return result(c, leave_initialisation(c)); }
EXPORT fmi2Status fmi2Terminate(fmi2Component c) { return (void)c, fmi2OK; }
EXPORT fmi2Status fmi2Reset(fmi2Component c) { return reset(c), fmi2OK; }

EXPORT fmi2Status fmi2GetReal(fmi2Component c, const fmi2ValueReference r[], size_t n, fmi2Real x[]) {
    return result(c, get_values(c, r, n, x));
}
EXPORT fmi2Status fmi2SetReal(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2Real x[]) {
    return result(c, set_values(c, r, n, x));
}
#define NO_VARIABLES(type)                                                                                        \
    EXPORT fmi2Status fmi2Get##type(fmi2Component c, const fmi2ValueReference r[], size_t n, fmi2##type x[]) {    \
        return (void)r, (void)x, none(c, n);                                                                      \
    }                                                                                                             \
    EXPORT fmi2Status fmi2Set##type(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2##type x[]) { \
        return (void)r, (void)x, none(c, n);                                                                      \
    }
NO_VARIABLES(Integer)
NO_VARIABLES(Boolean)
NO_VARIABLES(String)

EXPORT fmi2Status fmi2GetFMUstate(fmi2Component c, fmi2FMUstate *state) { return result(c, copy_state(c, state)); }
EXPORT fmi2Status fmi2SetFMUstate(fmi2Component c, fmi2FMUstate state) {
    if (state == NULL) return result(c, fail(c, "there is no FMU state"));
    memcpy(&((Instance *)c)->state, state, sizeof(State));
    return fmi2OK;
}
EXPORT fmi2Status fmi2FreeFMUstate(fmi2Component c, fmi2FMUstate *state) {
    (void)c;
    if (state == NULL) return fmi2OK;
    free(*state);
    *state = NULL;
    return fmi2OK;
}
EXPORT fmi2Status fmi2SerializedFMUstateSize(fmi2Component c, fmi2FMUstate state, size_t *size) {
    (void)c, (void)state;
    *size = sizeof(State);
    return fmi2OK;
}
EXPORT fmi2Status fmi2SerializeFMUstate(fmi2Component c, fmi2FMUstate state, fmi2Byte bytes[], size_t size) {
    if (size < sizeof(State)) return result(c, fail(c, "an FMU state has %d bytes", (int)sizeof(State)));
    memcpy(bytes, state, sizeof(State));
    return fmi2OK;
}
EXPORT fmi2Status fmi2DeSerializeFMUstate(fmi2Component c, const fmi2Byte bytes[], size_t size, fmi2FMUstate *state) {
    if (size != sizeof(State)) return result(c, fail(c, "an FMU state has %d bytes", (int)sizeof(State)));
    *state = NULL;
    if (!copy_state(c, state)) return fmi2Error;
    memcpy(*state, bytes, sizeof(State));
    return fmi2OK;
}

EXPORT fmi2Status fmi2GetDirectionalDerivative(fmi2Component c, const fmi2ValueReference unknowns[], size_t unknown_count,
                                               const fmi2ValueReference knowns[], size_t known_count,
                                               const fmi2Real seed[], fmi2Real sensitivity[]) {
    return result(c, differentiate(c, unknowns, unknown_count, knowns, known_count, seed, sensitivity));
}

/* Model exchange */

EXPORT fmi2Status fmi2EnterEventMode(fmi2Component c) { return (void)c, fmi2OK; }
EXPORT fmi2Status fmi2NewDiscreteStates(fmi2Component c, fmi2EventInfo *info) {
    (void)c;
    memset(info, 0, sizeof *info);
    return fmi2OK;
}
EXPORT fmi2Status fmi2EnterContinuousTimeMode(fmi2Component c) { return (void)c, fmi2OK; }
EXPORT fmi2Status fmi2CompletedIntegratorStep(fmi2Component c, fmi2Boolean no_return, fmi2Boolean *event,
                                              fmi2Boolean *terminate) {
    (void)c, (void)no_return;
    *event = *terminate = 0;
    return fmi2OK;
}
EXPORT fmi2Status fmi2SetTime(fmi2Component c, fmi2Real t) { return change(&((Instance *)c)->state, 0, t), fmi2OK; }
EXPORT fmi2Status fmi2SetContinuousStates(fmi2Component c, const fmi2Real x[], size_t n) {
    return result(c, set_states(c, x, n));
}
EXPORT fmi2Status fmi2GetContinuousStates(fmi2Component c, fmi2Real x[], size_t n) { return result(c, get_states(c, x, n)); }
EXPORT fmi2Status fmi2GetDerivatives(fmi2Component c, fmi2Real x[], size_t n) { return result(c, get_derivatives(c, x, n)); }
EXPORT fmi2Status fmi2GetEventIndicators(fmi2Component c, fmi2Real z[], size_t n) {
    (void)z;
    return result(c, n == 0 || fail(c, "there are no event indicators"));
}
EXPORT fmi2Status fmi2GetNominalsOfContinuousStates(fmi2Component c, fmi2Real x[], size_t n) {
    (void)c;
    for (size_t k = 0; k < n; k++) x[k] = 1;
    return fmi2OK;
}

/* Co-simulation */

EXPORT fmi2Status fmi2DoStep(fmi2Component c, fmi2Real t, fmi2Real length, fmi2Boolean no_return) {
    (void)no_return;
    return result(c, advance(c, t, length));
}
EXPORT fmi2Status fmi2CancelStep(fmi2Component c) { return result(c, fail(c, "steps end before the call returns")); }
EXPORT fmi2Status fmi2SetRealInputDerivatives(fmi2Component c, const fmi2ValueReference r[], size_t n,
                                              const fmi2Integer orders[], const fmi2Real x[]) {
    (void)r, (void)orders, (void)x;
    return result(c, n == 0 || fail(c, "derivatives of inputs are not used: set the rates of motions as inputs"));
}
EXPORT fmi2Status fmi2GetRealOutputDerivatives(fmi2Component c, const fmi2ValueReference r[], size_t n,
                                               const fmi2Integer orders[], fmi2Real x[]) {
    (void)r, (void)orders, (void)x;
    return result(c, n == 0 || fail(c, "there are no derivatives of outputs"));
}
EXPORT fmi2Status fmi2GetRealStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Real *value) {
    *value = ((Instance *)c)->state.values[0];
    return kind == fmi2LastSuccessfulTime ? fmi2OK : fmi2Discard;
}
EXPORT fmi2Status fmi2GetBooleanStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Boolean *value) {
    (void)c;
    *value = 0;
    return kind == fmi2Terminated ? fmi2OK : fmi2Discard;
}
EXPORT fmi2Status fmi2GetStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Status *value) {
    (void)c, (void)kind, (void)value;
    return fmi2Discard;
}
EXPORT fmi2Status fmi2GetIntegerStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Integer *value) {
    (void)c, (void)kind, (void)value;
    return fmi2Discard;
}
EXPORT fmi2Status fmi2GetStringStatus(fmi2Component c, const fmi2StatusKind kind, fmi2String *value) {
    (void)c, (void)kind, (void)value;
    return fmi2Discard;
}
