// SPDX-License-Identifier: Apache-2.0
// The calls that are made for every message, for org.libripc.internal.JniCalls. Everything else goes through JNA.
//
// No libripc is linked: the addresses of its functions come from the one that Java has loaded already, so that there is
// never a second copy of it in the process.
#include <jni.h>
#include <string.h>

#include "layouts.h"
#include "ripc/ripc.h"

typedef ripc_status (*SendFunction)(ripc_service *, ripc_service_id, const ripc_item *, size_t,
                                    const ripc_send_options *, ripc_ticket **);
typedef ripc_status (*SendManyFunction)(ripc_service *, ripc_service_id, const ripc_outgoing *, size_t,
                                        const ripc_send_options *, ripc_ticket **, size_t *);
typedef ripc_status (*ReceiveRecordsFunction)(ripc_service *, uint32_t, uint64_t, void *, size_t, size_t, size_t *);
typedef void (*ReleaseFunction)(ripc_message *);

// In the order of JniCalls.FUNCTIONS.
static struct {
  SendFunction send;
  SendManyFunction send_many;
  ReceiveRecordsFunction receive_records;
  ReleaseFunction release;
} ripc;

enum { kFunctions = sizeof ripc / sizeof(void *) };

static void *pointer(jlong address) { return (void *)(uintptr_t)address; }

// ---- The methods of JniCalls -----------------------------------------------------------------------------------

static jint initialize(JNIEnv *env, jclass type, jlongArray functions) {
  (void)type;
  if ((*env)->GetArrayLength(env, functions) != kFunctions) return RIPC_INVALID_ARGUMENT;
  jlong addresses[kFunctions];
  (*env)->GetLongArrayRegion(env, functions, 0, kFunctions, addresses);
  memcpy(&ripc, addresses, sizeof ripc);
  return RIPC_OK;
}

static jlong address_of(JNIEnv *env, jclass type, jobject buffer) {
  (void)type;
  return (jlong)(uintptr_t)(*env)->GetDirectBufferAddress(env, buffer);
}

static jint send_message(JNIEnv *env, jclass type, jlong service, jlong to, jlong items, jint count, jlong options,
                         jlong ticket) {
  (void)env, (void)type;
  return (jint)ripc.send(pointer(service), (ripc_service_id)to, pointer(items), (size_t)count, pointer(options),
                         pointer(ticket));
}

static jint send_many(JNIEnv *env, jclass type, jlong service, jlong to, jlong messages, jint count, jlong sent) {
  (void)env, (void)type;
  return (jint)ripc.send_many(pointer(service), (ripc_service_id)to, pointer(messages), (size_t)count, NULL, NULL,
                              pointer(sent));
}

// The number of records written, or a status as a negative number.
static jint receive_batch(JNIEnv *env, jclass type, jlong service, jint flags, jlong timeout, jlong buffer, jint size,
                          jint capacity) {
  (void)env, (void)type;
  size_t count = 0;
  const ripc_status status = ripc.receive_records(pointer(service), (uint32_t)flags, (uint64_t)timeout, pointer(buffer),
                                                  (size_t)size, (size_t)capacity, &count);
  return status == RIPC_OK ? (jint)count : -(jint)status;
}

static void release_message(JNIEnv *env, jclass type, jlong message) {
  (void)env, (void)type;
  ripc.release(pointer(message));
}

// By System.load(). The name is the JVM's.
JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *machine, void *reserved) {  // NOLINT(readability-identifier-naming)
  (void)reserved;
  static const JNINativeMethod kMethods[] = {
      {"initialize", "([J)I", (void *)(uintptr_t)initialize},
      {"addressOf", "(Ljava/nio/ByteBuffer;)J", (void *)(uintptr_t)address_of},
      {"send", "(JJJIJJ)I", (void *)(uintptr_t)send_message},
      {"sendMany", "(JJJIJ)I", (void *)(uintptr_t)send_many},
      {"receiveBatch", "(JIJJII)I", (void *)(uintptr_t)receive_batch},
      {"releaseMessage", "(J)V", (void *)(uintptr_t)release_message},
  };
  void *env = NULL;
  if ((*machine)->GetEnv(machine, &env, JNI_VERSION_10) != JNI_OK) return JNI_ERR;
  JNIEnv *const here = env;
  const jclass type = (*here)->FindClass(here, "org/libripc/internal/JniCalls");
  if (type == NULL) return JNI_ERR;
  const jint count = sizeof kMethods / sizeof kMethods[0];
  return (*here)->RegisterNatives(here, type, kMethods, count) == JNI_OK ? JNI_VERSION_10 : JNI_ERR;
}
