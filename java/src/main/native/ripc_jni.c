// SPDX-License-Identifier: Apache-2.0
// Lets Java call libripc without another library: has the native methods of org.libripc.internal.NativeCalls, LibC and
// JniCalls, and the functions that call Upcalls.
//
// This library does not link libripc: it loads the one that Java names.
#include <dlfcn.h>
#include <errno.h>
#include <jni.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "calls.h"
#include "layouts.h"
#include "ripc/ripc.h"

static void *pointer(jlong address) { return (void *)(uintptr_t)address; }

// ---- The functions that are called by name ---------------------------------------------------------------------
//
// Every argument is an integer or a pointer. On all supported processors, each of these has its own register or place
// on the stack.

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are names of types and functions
#define TYPE_J jlong
#define TYPE_I jint
#define TYPE_V void

typedef void (*Function)(void);

#define INDEX(name, ...) k_##name,
enum {
  RIPC_CALLS(INDEX, INDEX, INDEX, INDEX, INDEX, INDEX, INDEX, INDEX, INDEX)
      LIBC_CALLS(INDEX, INDEX, INDEX, INDEX, INDEX) kCalls
};
enum { kRipcCalls = k_epoll_create1 };

#define NAME(name, ...) #name,
static const char *const kNames[] = {RIPC_CALLS(NAME, NAME, NAME, NAME, NAME, NAME, NAME, NAME, NAME)
                                         LIBC_CALLS(NAME, NAME, NAME, NAME, NAME)};

static Function functions[kCalls];
static _Thread_local int last_error_number;

#define CALL(name, R, types, arguments) ((TYPE_##R(*) types)functions[k_##name]) arguments

// For libripc: ripc_last_error() reports errors.
#define RETURN_J return
#define RETURN_I return
#define RETURN_V
#define RIPC_STUB(name, R, types, arguments, ...) \
  static TYPE_##R call_##name(__VA_ARGS__) {      \
    (void)env, (void)type;                        \
    RETURN_##R CALL(name, R, types, arguments);   \
  }

// For the C library: errno is kept, because the JVM may make other calls before Java asks for the error number.
#define LIBC_STUB(name, R, types, arguments, ...)            \
  static TYPE_##R call_##name(__VA_ARGS__) {                 \
    (void)env, (void)type;                                   \
    const TYPE_##R result = CALL(name, R, types, arguments); \
    last_error_number = errno;                               \
    return result;                                           \
  }

#define T(A) TYPE_##A
#define HERE JNIEnv *env, jclass type
#define STUB0(STUB, name, R) STUB(name, R, (void), (), HERE)
#define STUB1(STUB, name, R, A) STUB(name, R, (T(A)), (a), HERE, T(A) a)
#define STUB2(STUB, name, R, A, B) STUB(name, R, (T(A), T(B)), (a, b), HERE, T(A) a, T(B) b)
#define STUB3(STUB, name, R, A, B, C) STUB(name, R, (T(A), T(B), T(C)), (a, b, c), HERE, T(A) a, T(B) b, T(C) c)
#define STUB4(STUB, name, R, A, B, C, D) \
  STUB(name, R, (T(A), T(B), T(C), T(D)), (a, b, c, d), HERE, T(A) a, T(B) b, T(C) c, T(D) d)
#define STUB5(STUB, name, R, A, B, C, D, E) \
  STUB(name, R, (T(A), T(B), T(C), T(D), T(E)), (a, b, c, d, e), HERE, T(A) a, T(B) b, T(C) c, T(D) d, T(E) e)
#define STUB6(STUB, name, R, A, B, C, D, E, F)                                                                  \
  STUB(name, R, (T(A), T(B), T(C), T(D), T(E), T(F)), (a, b, c, d, e, f), HERE, T(A) a, T(B) b, T(C) c, T(D) d, \
       T(E) e, T(F) f)
#define STUB7(STUB, name, R, A, B, C, D, E, F, G)                                                                \
  STUB(name, R, (T(A), T(B), T(C), T(D), T(E), T(F), T(G)), (a, b, c, d, e, f, g), HERE, T(A) a, T(B) b, T(C) c, \
       T(D) d, T(E) e, T(F) f, T(G) g)
#define STUB9(STUB, name, R, A, B, C, D, E, F, G, H, I)                                                            \
  STUB(name, R, (T(A), T(B), T(C), T(D), T(E), T(F), T(G), T(H), T(I)), (a, b, c, d, e, f, g, h, i), HERE, T(A) a, \
       T(B) b, T(C) c, T(D) d, T(E) e, T(F) f, T(G) g, T(H) h, T(I) i)

#define RIPC0(...) STUB0(RIPC_STUB, __VA_ARGS__)
#define RIPC1(...) STUB1(RIPC_STUB, __VA_ARGS__)
#define RIPC2(...) STUB2(RIPC_STUB, __VA_ARGS__)
#define RIPC3(...) STUB3(RIPC_STUB, __VA_ARGS__)
#define RIPC4(...) STUB4(RIPC_STUB, __VA_ARGS__)
#define RIPC5(...) STUB5(RIPC_STUB, __VA_ARGS__)
#define RIPC6(...) STUB6(RIPC_STUB, __VA_ARGS__)
#define RIPC7(...) STUB7(RIPC_STUB, __VA_ARGS__)
#define RIPC9(...) STUB9(RIPC_STUB, __VA_ARGS__)
#define LIBC1(...) STUB1(LIBC_STUB, __VA_ARGS__)
#define LIBC2(...) STUB2(LIBC_STUB, __VA_ARGS__)
#define LIBC3(...) STUB3(LIBC_STUB, __VA_ARGS__)
#define LIBC4(...) STUB4(LIBC_STUB, __VA_ARGS__)
#define LIBC6(...) STUB6(LIBC_STUB, __VA_ARGS__)

RIPC_CALLS(RIPC0, RIPC1, RIPC2, RIPC3, RIPC4, RIPC5, RIPC6, RIPC7, RIPC9)
LIBC_CALLS(LIBC1, LIBC2, LIBC3, LIBC4, LIBC6)

#define METHOD0(name, R) {#name, "()" #R, (void *)(uintptr_t)call_##name},
#define METHOD1(name, R, A) {#name, "(" #A ")" #R, (void *)(uintptr_t)call_##name},
#define METHOD2(name, R, A, B) {#name, "(" #A #B ")" #R, (void *)(uintptr_t)call_##name},
#define METHOD3(name, R, A, B, C) {#name, "(" #A #B #C ")" #R, (void *)(uintptr_t)call_##name},
#define METHOD4(name, R, A, B, C, D) {#name, "(" #A #B #C #D ")" #R, (void *)(uintptr_t)call_##name},
#define METHOD5(name, R, A, B, C, D, E) {#name, "(" #A #B #C #D #E ")" #R, (void *)(uintptr_t)call_##name},
#define METHOD6(name, R, A, B, C, D, E, F) {#name, "(" #A #B #C #D #E #F ")" #R, (void *)(uintptr_t)call_##name},
#define METHOD7(name, R, A, B, C, D, E, F, G) {#name, "(" #A #B #C #D #E #F #G ")" #R, (void *)(uintptr_t)call_##name},
#define METHOD9(name, R, A, B, C, D, E, F, G, H, I) \
  {#name, "(" #A #B #C #D #E #F #G #H #I ")" #R, (void *)(uintptr_t)call_##name},

static const JNINativeMethod kRipcMethods[] = {
    RIPC_CALLS(METHOD0, METHOD1, METHOD2, METHOD3, METHOD4, METHOD5, METHOD6, METHOD7, METHOD9)};
static const JNINativeMethod kLibcMethods[] = {LIBC_CALLS(METHOD1, METHOD2, METHOD3, METHOD4, METHOD6)};
// NOLINTEND(bugprone-macro-parentheses)

// ---- The functions that call Java ------------------------------------------------------------------------------

static struct {
  JavaVM *machine;
  pthread_key_t attached;
  jclass type;
  jmethodID ticket_completed;
  jmethodID notification_came;
  jmethodID visit;
  jmethodID service_changed;
} upcalls;

// Runs at the end of a thread that was attached here.
static void detach(void *machine) {
  JavaVM *const there = machine;
  (*there)->DetachCurrentThread(there);
}

// A responder thread stays known to the JVM until it ends, and does not keep the JVM from ending. NULL: the JVM refuses
// it.
static JNIEnv *attach(void) {
  void *env = NULL;
  JavaVM *const machine = upcalls.machine;
  if ((*machine)->GetEnv(machine, &env, JNI_VERSION_10) == JNI_OK) return env;
  JavaVMAttachArgs arguments = {.version = JNI_VERSION_10, .name = (char[]){"ripc-responder"}, .group = NULL};
  if ((*machine)->AttachCurrentThreadAsDaemon(machine, &env, &arguments) != JNI_OK) return NULL;
  (void)pthread_setspecific(upcalls.attached, machine);
  return env;
}

// Upcalls must throw nothing, because nobody could catch it here.
static void end_upcall(JNIEnv *env) {
  if (!(*env)->ExceptionCheck(env)) return;
  (*env)->ExceptionDescribe(env);
  (*env)->ExceptionClear(env);
}

static void ticket_completed(void *user, ripc_status status) {
  JNIEnv *const env = attach();
  if (env == NULL) return;
  (*env)->CallStaticVoidMethod(env, upcalls.type, upcalls.ticket_completed, (jlong)(uintptr_t)user, (jint)status);
  end_upcall(env);
}

static void notification_came(void *user, ripc_service_id source, const ripc_item_view *items, size_t count) {
  JNIEnv *const env = attach();
  if (env == NULL) return;
  (*env)->CallStaticVoidMethod(env, upcalls.type, upcalls.notification_came, (jlong)(uintptr_t)user, (jlong)source,
                               (jlong)(uintptr_t)items, (jlong)count);
  end_upcall(env);
}

// Serves as any visitor of ripc.h.
static void visit(void *user, const void *found) {
  JNIEnv *const env = attach();
  if (env == NULL) return;
  (*env)->CallStaticVoidMethod(env, upcalls.type, upcalls.visit, (jlong)(uintptr_t)user, (jlong)(uintptr_t)found);
  end_upcall(env);
}

static void service_changed(void *user, ripc_status status, const ripc_service_info *info) {
  JNIEnv *const env = attach();
  if (env == NULL) return;
  (*env)->CallStaticVoidMethod(env, upcalls.type, upcalls.service_changed, (jlong)(uintptr_t)user, (jint)status,
                               (jlong)(uintptr_t)info);
  end_upcall(env);
}

static jboolean find_upcalls(JNIEnv *env) {
  const jclass type = (*env)->FindClass(env, "org/libripc/internal/Upcalls");
  if (type == NULL) return JNI_FALSE;
  upcalls.ticket_completed = (*env)->GetStaticMethodID(env, type, "ticketCompleted", "(JI)V");
  if (upcalls.ticket_completed == NULL) return JNI_FALSE;
  upcalls.notification_came = (*env)->GetStaticMethodID(env, type, "notificationCame", "(JJJJ)V");
  if (upcalls.notification_came == NULL) return JNI_FALSE;
  upcalls.visit = (*env)->GetStaticMethodID(env, type, "visit", "(JJ)V");
  if (upcalls.visit == NULL) return JNI_FALSE;
  upcalls.service_changed = (*env)->GetStaticMethodID(env, type, "serviceChanged", "(JIJ)V");
  if (upcalls.service_changed == NULL) return JNI_FALSE;
  upcalls.type = (*env)->NewGlobalRef(env, type);
  return upcalls.type != NULL;
}

// ---- The methods of JniCalls -----------------------------------------------------------------------------------

// Returns NULL, or what is missing.
static const char *find_functions(const char *path, char *text, size_t room) {
  void *const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return dlerror();
  for (int index = 0; index < kCalls; ++index) {
    void *const found = dlsym(index < kRipcCalls ? library : RTLD_DEFAULT, kNames[index]);
    if (found == NULL) {
      (void)snprintf(text, room, "it is of another version than libripc-jni.so: it has no %s", kNames[index]);
      return text;
    }
    memcpy(&functions[index], &found, sizeof found);
  }
  return NULL;
}

static jboolean add_methods(JNIEnv *env, const char *name, const JNINativeMethod *methods, size_t count) {
  const jclass type = (*env)->FindClass(env, name);
  return type != NULL && (*env)->RegisterNatives(env, type, methods, (jint)count) == JNI_OK;
}

// Paths and errors are bytes, because JNI has no strings in the encoding of file names. The path ends with a zero.
// Returns NULL also if there is an exception.
static jbyteArray open_library(JNIEnv *env, jclass type, jbyteArray library) {
  (void)type;
  jbyte *const path = (*env)->GetByteArrayElements(env, library, NULL);
  if (path == NULL) return NULL;
  char text[200];
  const char *const problem = find_functions((const char *)path, text, sizeof text);
  (*env)->ReleaseByteArrayElements(env, library, path, JNI_ABORT);
  if (problem != NULL) {
    const jsize size = (jsize)strlen(problem);
    const jbyteArray bytes = (*env)->NewByteArray(env, size);
    if (bytes != NULL) (*env)->SetByteArrayRegion(env, bytes, 0, size, (const jbyte *)problem);
    return bytes;
  }
  if (find_upcalls(env) &&
      add_methods(env, "org/libripc/internal/NativeCalls", kRipcMethods, sizeof kRipcMethods / sizeof kRipcMethods[0]))
    (void)add_methods(env, "org/libripc/internal/LibC", kLibcMethods, sizeof kLibcMethods / sizeof kLibcMethods[0]);
  return NULL;
}

static jlong address_of(JNIEnv *env, jclass type, jobject buffer) {
  (void)type;
  return (jlong)(uintptr_t)(*env)->GetDirectBufferAddress(env, buffer);
}

static jobject view(JNIEnv *env, jclass type, jlong address, jlong size) {
  (void)type;
  return (*env)->NewDirectByteBuffer(env, pointer(address), size);
}

// The number of records written, or a status as a negative number.
static jint receive_batch(JNIEnv *env, jclass type, jlong service, jint flags, jlong timeout, jlong buffer, jint size,
                          jint capacity) {
  jlong count = 0;
  const jint status =
      call_ripc_receive_records(env, type, service, flags, timeout, buffer, size, capacity, (jlong)(uintptr_t)&count);
  return status == RIPC_OK ? (jint)count : -status;
}

static jint get_last_error_number(JNIEnv *env, jclass type) {
  (void)env, (void)type;
  return last_error_number;
}

static jlong upcall(JNIEnv *env, jclass type, jint which) {
  (void)env, (void)type;
  static const Function kFunctions[] = {(Function)ticket_completed, (Function)notification_came, (Function)visit,
                                        (Function)service_changed};
  return (jlong)(uintptr_t)kFunctions[which];
}

// Called by System.load(). The JVM prescribes the name.
JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *machine, void *reserved) {  // NOLINT(readability-identifier-naming)
  (void)reserved;
  static const JNINativeMethod kMethods[] = {
      {"open", "([B)[B", (void *)(uintptr_t)open_library},
      {"receiveBatch", "(JIJJII)I", (void *)(uintptr_t)receive_batch},
      {"addressOf", "(Ljava/nio/ByteBuffer;)J", (void *)(uintptr_t)address_of},
      {"view", "(JJ)Ljava/nio/ByteBuffer;", (void *)(uintptr_t)view},
      {"lastErrorNumber", "()I", (void *)(uintptr_t)get_last_error_number},
      {"upcall", "(I)J", (void *)(uintptr_t)upcall},
  };
  void *env = NULL;
  if ((*machine)->GetEnv(machine, &env, JNI_VERSION_10) != JNI_OK) return JNI_ERR;
  if (pthread_key_create(&upcalls.attached, detach) != 0) return JNI_ERR;
  upcalls.machine = machine;
  return add_methods(env, "org/libripc/internal/JniCalls", kMethods, sizeof kMethods / sizeof kMethods[0])
             ? JNI_VERSION_10
             : JNI_ERR;
}
