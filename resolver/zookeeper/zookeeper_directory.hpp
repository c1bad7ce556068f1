// SPDX-License-Identifier: Apache-2.0
// A ZooKeeper ensemble as a directory, through ZooKeeper's C client for one thread.
//
// That one thread, `ripc-zookeeper`, belongs to this class, and it alone uses the client. Other threads put requests
// into a queue. The thread sleeps in poll() on the client's descriptor. It calls back with the answers after the client
// has returned, so callbacks may take locks. The client shares some state between handles without a lock, so the
// contexts of a process take turns in it: the calls that use a connection are made inside ForkGuard::follow(). A fork
// waits for that, so none of these calls may look up a name. The library gets addresses only.
//
// A node's version does not tell a holder from the next one: both begin at 0. So each create() also writes the node's
// folder, and an exact read remembers the folder's version. A commit is refused if a node of the folder was made since
// then.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/backoff.hpp"
#include "base/fork_guard.hpp"
#include "base/unique_fd.hpp"
#include "resolver/zookeeper/directory.hpp"
#include "resolver/zookeeper/zookeeper_library.hpp"
#include "resolver/zookeeper/zookeeper_options.hpp"

namespace ripc::internal::resolver {

class ZooKeeperDirectory final : public Directory {
 public:
  // library: null for the installed one. RIPC_UNSUPPORTED names the package that is missing. RIPC_NO_DESCRIPTORS,
  // RIPC_NO_MEMORY, RIPC_SYSTEM.
  static Result<std::unique_ptr<ZooKeeperDirectory>> create(const ZooKeeperOptions& options,
                                                            std::shared_ptr<const zk::Library> library = nullptr);
  ~ZooKeeperDirectory() override;

  Status start(Listener& listener) override;
  void stop() noexcept override;

  void get(std::string path, Read how, Done done) override;
  void children(std::string path, bool is_watched, Done done) override;
  void commit(std::uint64_t session, std::vector<Write> writes, Done done) override;
  void sync(Done done) override;
  void forget(std::string path) override;

  std::size_t most_watches(std::size_t path_size) const noexcept override;

  std::string_view name() const noexcept override { return "zookeeper"; }
  std::string text() const override { return options_.text(); }
  std::string trouble() const override;

 private:
  struct Request {
    enum class Kind : std::uint8_t { get, children, commit, sync, forget };
    ZooKeeperDirectory* directory = nullptr;
    Kind kind = Kind::get;
    std::string path{};  // with the chroot
    Read how = Read::plain;
    std::uint64_t session = 0;  // for commits
    std::vector<Write> writes{};
    Done done{};
    Answer answer{};
    unsigned attempts = 0;
    int failure = 0;  // the second half of an exact read could not be asked, for this reason
    // What the client reads and writes while a transaction is under way.
    std::vector<std::string> folders{};
    std::vector<zk::Operation> operations{};
    std::vector<zk::OperationResult> results{};
    std::vector<bool> is_folder{};  // for each operation: it needs only the folder
  };
  // An event that the client has reported; they are kept in order.
  struct Arrival {
    std::unique_ptr<Request> request;  // that was answered; nullptr: a watch has fired
    std::string path;                  // of the watch
  };

  ZooKeeperDirectory(ZooKeeperOptions options, std::shared_ptr<const zk::Library> library);
  void ask(Request request);

  // The thread's.
  void run() noexcept;
  bool turn();
  void open_handle();
  void look_up_again();
  void close_handle() noexcept;
  void look_at_state();
  void deliver();
  void submit_all();
  void submit(std::unique_ptr<Request>& owned);
  void prepare(Request& request);
  void prepare_commit(Request& request);
  void reserve_arrival();
  // The rest needs no memory, except where it is caught.
  void send(Request& request);
  int submit_read(Request& request);
  void make_folders(const Request& request);
  void read_done(Request& request, int code);
  void finish(Request& request, int code);
  bool has_missing_folder(const Request& request, int code) const;
  static bool leaves_out(Request& request, int code);
  std::string_view without_chroot(std::string_view path) const noexcept;
  void note_trouble(std::string text);

  static void log(const char*) noexcept {}
  static void watched(zk::Handle*, int type, int state, const char* path, void* context) noexcept;
  static void folder_looked_at(int code, const zk::Stat* stat, const void* data) noexcept;
  static void exists_done(int code, const zk::Stat* stat, const void* data) noexcept;
  static void get_done(int code, const char* value, int size, const zk::Stat* stat, const void* data) noexcept;
  static void children_done(int code, const zk::Strings* names, const void* data) noexcept;
  static void void_done(int code, const void* data) noexcept;
  static void string_done(int code, const char* value, const void* data) noexcept;
  static void folder_made(int code, const char* path, const void* data) noexcept;
  static void ignore_void(int, const void*) noexcept {}

  const ZooKeeperOptions options_;
  const std::shared_ptr<const zk::Library> library_;
  UniqueFd wake_;

  mutable std::mutex mutex_;  // guards the next three
  std::deque<std::unique_ptr<Request>> asked_;
  std::string trouble_;
  bool stopping_ = false;

  // The thread's.
  Listener* listener_ = nullptr;
  zk::Handle* handle_ = nullptr;
  ForkGuard fork_guard_;
  int fd_ = -1;
  int interest_ = 0;
  Nanoseconds client_due_ = 0;
  std::uint64_t session_ = 0;
  bool is_up_ = false;
  Nanoseconds up_since_ = 0;
  Nanoseconds served_at_ = 0;        // when the servers last served this session
  Nanoseconds session_timeout_ = 0;  // as the servers allow
  std::string connect_text_;
  Nanoseconds look_up_at_ = 0;
  Nanoseconds open_at_ = 0;
  Backoff open_pause_;
  std::deque<std::unique_ptr<Request>> to_submit_;
  std::unordered_map<const Request*, std::unique_ptr<Request>> pending_;
  std::vector<Arrival> arrived_;
  int folder_failure_ = 0;  // why the folders of the next commit that is answered could not be made; 0: they were
  bool has_lost_ = false;   // an event was lost for lack of memory, so the listener has to begin anew
  std::thread thread_;
};

}  // namespace ripc::internal::resolver
