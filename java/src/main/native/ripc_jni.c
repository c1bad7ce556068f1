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
typedef ripc_status (*SendManyFunction)(ripc_service *, ripc_service_id, const ripc_short_message *, size_t, size_t *);
typedef ripc_status (*ReceiveManyFunction)(ripc_service *, uint32_t, uint64_t, ripc_message **, size_t, size_t *);
typedef ripc_service_id (*SourceFunction)(const ripc_message *);
typedef uint32_t (*TagFunction)(const ripc_message *);
typedef size_t (*CountFunction)(const ripc_message *);
typedef ripc_status (*ItemFunction)(const ripc_message *, size_t, ripc_item_view *);
typedef uint64_t (*InReplyToFunction)(const ripc_message *);
typedef size_t (*ReturnSizeFunction)(const ripc_message *, size_t);
typedef void (*ReleaseFunction)(ripc_message *);

// In the order of JniCalls.FUNCTIONS.
static struct {
  SendFunction send;
  SendManyFunction send_many;
  ReceiveManyFunction receive_many;
  SourceFunction source;
  TagFunction tag;
  CountFunction item_count;
  ItemFunction item;
  InReplyToFunction in_reply_to;
  CountFunction return_count;
  ReturnSizeFunction return_size;
  ReleaseFunction release;
} ripc;

enum { kFunctions = sizeof ripc / sizeof(void *) };

// What one call of receiveBatch can return at most.
enum { kMostMessages = 64 };

static void *pointer(jlong address) { return (void *)(uintptr_t)address; }

static size_t rounded(size_t size) { return (size + 7) & ~(size_t)7; }

// Writes one message as a record (layouts.h) into `out`, with the bytes of its short items if `room` allows, and gives
// the message back unless the record refers to it. Returns the size of the record.
static size_t write_record(ripc_message *message, unsigned char *out, size_t room) {
  struct record_head head = {0};
  head.tag = ripc.tag(message);
  head.source = ripc.source(message);
  head.in_reply_to = ripc.in_reply_to(message);
  head.item_count = (uint32_t)ripc.item_count(message);
  head.return_count = (uint32_t)ripc.return_count(message);
  ripc_item_view *const views = (ripc_item_view *)(void *)(out + sizeof head);
  uint64_t *const returns = (uint64_t *)(void *)(views + head.item_count);
  for (uint32_t index = 0; index < head.return_count; ++index) returns[index] = ripc.return_size(message, index);
  size_t used = (size_t)((unsigned char *)(returns + head.return_count) - out);
  int keep = head.return_count != 0;
  for (uint32_t index = 0; index < head.item_count; ++index) {
    ripc_item_view *const view = &views[index];
    (void)ripc.item(message, index, view);  // the index is in range
    if (view->kind == RIPC_VIEW_LENT) {
      keep = 1;
    } else if (view->kind == RIPC_VIEW_SHORT) {
      if (view->size > room || rounded(view->size) > room - used) {
        view->kind = kShortInPlace;
        keep = 1;
      } else {
        if (view->size != 0) memcpy(out + used, view->data, view->size);
        view->data = pointer((jlong)used);
        used += rounded(view->size);
      }
    }
  }
  head.record_size = (uint32_t)used;
  if (keep) {
    head.handle = (uint64_t)(uintptr_t)message;
  } else {
    ripc.release(message);
  }
  memcpy(out, &head, sizeof head);
  return used;
}

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
  return (jint)ripc.send_many(pointer(service), (ripc_service_id)to, pointer(messages), (size_t)count, pointer(sent));
}

// The number of records written, or a status as a negative number.
static jint receive_batch(JNIEnv *env, jclass type, jlong service, jint flags, jlong timeout, jlong buffer, jint size,
                          jint capacity) {
  (void)env, (void)type;
  ripc_message *messages[kMostMessages];
  size_t count = 0;
  const size_t most = capacity < kMostMessages ? (size_t)capacity : (size_t)kMostMessages;
  const ripc_status status =
      ripc.receive_many(pointer(service), (uint32_t)flags, (uint64_t)timeout, messages, most, &count);
  if (status != RIPC_OK) return -(jint)status;
  unsigned char *out = pointer(buffer);
  size_t left = (size_t)size;
  for (size_t index = 0; index < count; ++index) {
    // Each of those that follow must find room for a record without bytes.
    const size_t used = write_record(messages[index], out, left - (count - 1 - index) * kLargestRecord);
    out += used;
    left -= used;
  }
  return (jint)count;
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
