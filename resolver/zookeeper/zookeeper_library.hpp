// SPDX-License-Identifier: Apache-2.0
// ZooKeeper's C client for one thread (Debian: libzookeeper-st2), loaded when a context asks for it. Nothing links with
// it, and its headers are not needed: this file declares the part of its interface that is used, as
// libzookeeper_st.so.2 has it. Where the headers are installed, zookeeper_library_test.cpp compares the declarations
// with them.
#pragma once

#include <sys/time.h>

#include <cstdint>
#include <memory>

#include "base/status.hpp"

namespace ripc::internal::resolver::zk {

struct Handle;
struct AccessList;

struct Stat {
  std::int64_t czxid;
  std::int64_t mzxid;
  std::int64_t ctime;
  std::int64_t mtime;
  std::int32_t version;
  std::int32_t cversion;
  std::int32_t aversion;
  std::int64_t ephemeral_owner;
  std::int32_t data_length;
  std::int32_t child_count;
  std::int64_t pzxid;
};

struct Strings {
  std::int32_t count;
  char** data;
};

struct ClientId {
  std::int64_t id;
  char password[16];
};

// One step of a transaction; made by the functions *_op_init.
struct Operation {
  struct Create {
    const char* path;
    const char* data;
    int data_size;
    char* buffer;
    int buffer_size;
    const AccessList* access;
    int flags;
    std::int64_t ttl;
  };
  struct Set {
    const char* path;
    const char* data;
    int data_size;
    int version;
    Stat* stat;
  };
  int type;
  union {
    Create create;
    Set set;
  };
};

struct OperationResult {
  int error;
  char* value;
  int value_size;
  Stat* stat;
};

using Watcher = void (*)(Handle*, int type, int state, const char* path, void* context);
using Log = void (*)(const char* message);
using VoidDone = void (*)(int code, const void* data);
using StatDone = void (*)(int code, const Stat*, const void* data);
using DataDone = void (*)(int code, const char* value, int size, const Stat*, const void* data);
using StringDone = void (*)(int code, const char* value, const void* data);
using StringsDone = void (*)(int code, const Strings*, const void* data);

enum Code : int {
  kOk = 0,
  kConnectionLoss = -4,
  kOperationTimeout = -7,
  kInvalidState = -9,
  kNoNode = -101,
  kBadVersion = -103,
  kNodeExists = -110,
  kSessionExpired = -112,
  kClosing = -116,
  kNothing = -117,
  kSessionMoved = -118,
  kThrottled = -127,
};
enum State : int { kExpiredState = -112, kConnectedState = 3 };
enum Event : int { kCreated = 1, kDeleted = 2, kChanged = 3, kChildren = 4 };
enum Interest : int { kWrite = 1, kRead = 2 };
enum Flags : int { kPersistent = 0, kEphemeral = 1, kContainer = 4 };
inline constexpr int kCreateOperation = 1;  // Operation::type
inline constexpr int kAnyWatch = 3;

// The functions of the library. The library has state that all handles of a process share, without a lock: two threads
// must not call it at once, except for init(), set_servers() and close().
struct Library {
  // Switches the library's log off, which is part of that state. RIPC_UNSUPPORTED names the package that is missing.
  static Result<std::shared_ptr<const Library>> load();

  Handle* (*init)(const char* hosts, Watcher, int timeout, const ClientId*, void* context, int flags, Log);
  // Waits some seconds for a server that does not answer. Of the shared state it takes one request number, and it does
  // no harm if another handle takes the same: each handle has its answers in order.
  int (*close)(Handle*);
  // Takes effect with the next connection.
  int (*set_servers)(Handle*, const char* hosts);
  // -1: while there is a connection, the library looks up no names.
  int (*set_resolution_delay)(Handle*, int milliseconds);
  int (*interest)(Handle*, int* fd, int* interest, timeval* timeout);
  int (*process)(Handle*, int events);
  int (*state)(Handle*);
  // What the servers allow, in milliseconds; valid while there is a session.
  int (*session_timeout)(Handle*);
  const ClientId* (*client_id)(Handle*);
  const char* (*error_text)(int code);
  int (*get)(Handle*, const char* path, Watcher, void* context, DataDone, const void* data);
  int (*exists)(Handle*, const char* path, Watcher, void* context, StatDone, const void* data);
  int (*children)(Handle*, const char* path, Watcher, void* context, StringsDone, const void* data);
  int (*create)(Handle*, const char* path, const char* value, int size, const AccessList*, int flags, StringDone,
                const void* data);
  int (*sync)(Handle*, const char* path, StringDone, const void* data);
  int (*multi)(Handle*, int count, const Operation*, OperationResult*, VoidDone, const void* data);
  int (*remove_watches)(Handle*, const char* path, int type, Watcher, void* context, int local, VoidDone,
                        const void* data);
  void (*create_op)(Operation*, const char* path, const char* value, int size, const AccessList*, int flags,
                    char* buffer, int buffer_size);
  void (*delete_op)(Operation*, const char* path, int version);
  void (*set_op)(Operation*, const char* path, const char* value, int size, int version, Stat*);
  void (*check_op)(Operation*, const char* path, int version);
  void (*set_log_level)(int level);
  const AccessList* open_access;
};

}  // namespace ripc::internal::resolver::zk
