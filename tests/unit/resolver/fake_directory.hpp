// SPDX-License-Identifier: Apache-2.0
// A directory in memory, with everything that can go wrong with a real one: links are cut, sessions expire, answers are
// lost and servers lag behind.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "resolver/zookeeper/directory.hpp"

namespace ripc::internal::test {

class FakeDirectory;

// The nodes that all clients see. Outlives the clients.
struct FakeWorld {
  using Node = resolver::Directory::Node;

  // Change nodes by hand, as another client of the directory would. A node that is there keeps its owner.
  void put(const std::string& path, const std::string& data, std::uint64_t owner = 0);
  void erase(const std::string& path);
  Node* find(const std::string& path) {
    const auto found = nodes.find(path);
    return found == nodes.end() ? nullptr : &found->second;
  }

  std::recursive_mutex mutex;
  std::map<std::string, Node> nodes;
  std::map<std::string, std::int32_t> folder_versions;
  std::uint64_t last_change = 0;
  std::uint64_t last_session = 0;
  std::size_t most_watches = 1'000'000;  // of each client
  std::set<FakeDirectory*> clients;
};

class FakeDirectory final : public resolver::Directory {
 public:
  explicit FakeDirectory(FakeWorld& world, bool starts_linked = true) : world_(world), starts_linked_(starts_linked) {}
  ~FakeDirectory() override { stop(); }

  Status start(Listener& listener) override {
    listener_ = &listener;
    {
      const std::lock_guard lock(world_.mutex);
      world_.clients.insert(this);
    }
    thread_ = std::thread([this] { run(); });
    if (starts_linked_) heal(true);
    return {};
  }

  void stop() noexcept override {
    if (!thread_.joinable()) return;
    post([this] { stopping_ = true; });
    thread_.join();
    const std::lock_guard lock(world_.mutex);
    world_.clients.erase(this);
    end_session();
  }

  void get(std::string path, Read how, Done done) override {
    ask([this, path = std::move(path), how, done = std::move(done)] {
      Answer answer;
      {
        const std::lock_guard lock(world_.mutex);
        ++reads;
        const FakeWorld::Node* const node = world_.find(path);
        if (how == Read::watched) watched_.insert(path);
        answer.outcome = node != nullptr ? Outcome::done : Outcome::absent;
        if (node != nullptr) answer.node = *node;
        answer.node.guard = world_.folder_versions[folder_of(path)];
        if (lagging_ != nullptr && node != nullptr) answer.node = *std::exchange(lagging_, nullptr);
        if (!refusal_.empty()) answer = {.outcome = Outcome::refused, .node = {}, .children = {}, .reason = refusal_};
      }
      tell([&] { done(answer); });
    });
  }

  void children(std::string path, bool is_watched, Done done) override {
    ask([this, path = std::move(path), is_watched, done = std::move(done)] {
      Answer answer;
      answer.outcome = Outcome::absent;
      {
        const std::lock_guard lock(world_.mutex);
        if (is_watched) watched_folders_.insert(path);
        for (const auto& [name, node] : world_.nodes) {
          if (folder_of(name) != path) continue;
          answer.outcome = Outcome::done;
          // The servers give them in no order.
          answer.children.insert(answer.children.begin(), name.substr(path.size() + 1));
        }
      }
      tell([&] { done(answer); });
    });
  }

  void commit(std::uint64_t session, std::vector<Write> writes, Done done) override {
    ask([this, session, writes = std::move(writes), done = std::move(done)] {
      if (before_commit) std::exchange(before_commit, nullptr)();
      Answer answer;
      const Lose lose = lose_next_commit.exchange(Lose::nothing);
      if (lose != Lose::all && refusal_.empty() && session == session_) answer.outcome = apply(writes);
      if (!refusal_.empty()) answer = {.outcome = Outcome::refused, .node = {}, .children = {}, .reason = refusal_};
      if (lose != Lose::nothing) answer = {};
      if (lose != Lose::nothing) {
        listener_->link_down();
        is_linked_ = false;
      }
      if (done) tell([&] { done(answer); });
      if (lose != Lose::nothing) heal(false);
    });
  }

  void sync(Done done) override {
    ask([this, done = std::move(done)] {
      ++syncs;
      if (done) done({.outcome = Outcome::done, .node = {}, .children = {}, .reason = {}});
    });
  }

  void forget(std::string path) override {
    ask([this, path = std::move(path)] {
      const std::lock_guard lock(world_.mutex);
      ++forgotten;
      watched_.erase(path);
      watched_folders_.erase(path);
    });
  }

  std::size_t most_watches(std::size_t) const noexcept override { return world_.most_watches; }
  std::string_view name() const noexcept override { return "fake"; }
  std::string text() const override { return "fake1:1,fake2:1/here"; }
  std::string trouble() const override { return is_linked_ ? "" : "the fake is cut off"; }

  // ---- What can go wrong; each is over when the call returns ----

  void cut() {
    run_there([this] {
      if (!is_linked_.exchange(false)) return;
      listener_->link_down();
    });
  }
  // Links the client again. is_new: the session was lost meanwhile.
  void heal(bool is_new) {
    post([this, is_new] { link_again(is_new); });
  }
  // In the directory's thread, such as in before_commit: the commit is then made by the new session.
  void link_again(bool is_new) {
    {
      const std::lock_guard lock(world_.mutex);
      if (is_new) {
        end_session();
        watched_.clear();
        watched_folders_.clear();
        session_ = ++world_.last_session;
      }
    }
    is_linked_ = true;
    listener_->link_up(session_, is_new);
    for (auto& question : std::exchange(held_, {})) post(std::move(question));
  }
  void expire() {
    cut();
    {
      const std::lock_guard lock(world_.mutex);
      end_session();
    }
    heal(true);
  }
  // Returns when everything that was asked so far has been answered.
  void settle_down() {
    for (int i = 0; i < 8; ++i) run_there([] {});
  }
  void answer_once_with(FakeWorld::Node old) {
    const std::lock_guard lock(world_.mutex);
    old_ = std::move(old);
    lagging_ = &old_;
  }
  // From now on every question is refused for this reason; "": no more.
  void refuse(const std::string& reason) {
    run_there([&] { refusal_ = reason; });
  }
  // From now on `teller` delivers each answer and each change.
  void tell_by(std::function<void(const std::function<void()>&)> teller) {
    run_there([&] { teller_ = std::move(teller); });
  }
  std::uint64_t session() const { return session_; }
  bool is_watching(const std::string& path) {
    const std::lock_guard lock(world_.mutex);
    return watched_.contains(path);
  }
  std::size_t watches() {
    const std::lock_guard lock(world_.mutex);
    return watched_.size() + watched_folders_.size();
  }

  enum class Lose : std::uint8_t { nothing, answer, all };
  std::atomic<Lose> lose_next_commit = Lose::nothing;  // for the next commit only
  std::function<void()> before_commit;                 // runs once, before the next commit
  std::atomic<unsigned> reads{0};
  std::atomic<unsigned> syncs{0};
  std::atomic<unsigned> commits{0};
  std::atomic<unsigned> forgotten{0};

  static std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

 private:
  friend struct FakeWorld;
  using Task = std::function<void()>;

  void tell(const std::function<void()>& what) {
    try {
      teller_ ? teller_(what) : what();
    } catch (const std::bad_alloc&) {
      listener_->link_up(session_, true);
    }
  }
  void run() {
    while (!stopping_) {
      Task task;
      {
        std::unique_lock lock(mutex_);
        posted_.wait(lock, [this] { return !tasks_.empty(); });
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }
  void post(Task task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    posted_.notify_all();
  }
  void run_there(const Task& task) {
    std::mutex mutex;
    std::condition_variable finished;
    bool is_done = false;
    post([&] {
      task();
      const std::lock_guard lock(mutex);
      is_done = true;
      finished.notify_all();
    });
    std::unique_lock lock(mutex);
    finished.wait(lock, [&] { return is_done; });
  }
  void ask(Task question) {
    post([this, question = std::move(question)] {
      if (is_linked_) {
        question();
      } else {
        held_.push_back(question);
      }
    });
  }

  Outcome apply(const std::vector<Write>& writes) {
    using Kind = Write::Kind;
    const std::lock_guard lock(world_.mutex);
    ++commits;
    // A commit does all or nothing, so everything is checked first.
    std::set<std::string> removed;
    for (const Write& write : writes) {
      const FakeWorld::Node* const node = world_.find(write.path);
      const bool is_exact = write.kind == Kind::replace || write.kind == Kind::remove;
      if (is_exact && (node == nullptr || node->version != write.seen.version ||
                       world_.folder_versions[folder_of(write.path)] != write.seen.guard))
        return Outcome::changed;
      if (write.kind == Kind::remove) removed.insert(write.path);
      if ((write.kind == Kind::create || write.kind == Kind::add) && node != nullptr && removed.count(write.path) == 0)
        return Outcome::exists;
    }
    for (const Write& write : writes) {
      if (write.kind == Kind::remove || write.kind == Kind::drop) world_.erase(write.path);
      if (write.kind == Kind::create) ++world_.folder_versions[folder_of(write.path)];
      if (write.kind == Kind::create || write.kind == Kind::add) world_.put(write.path, write.data, session_);
      if (write.kind == Kind::replace) world_.put(write.path, write.data, session_);
    }
    return Outcome::done;
  }

  // The caller holds the world's lock.
  void end_session() {
    std::vector<std::string> ended;
    for (const auto& [path, node] : world_.nodes) {
      if (node.owner == session_ && session_ != 0) ended.push_back(path);
    }
    session_ = 0;
    for (const std::string& path : ended) world_.erase(path);
  }
  void fire(const std::string& path, bool is_membership) {
    if (watched_.erase(path) != 0) post([this, path] { tell([&] { listener_->changed(path); }); });
    const std::string folder = folder_of(path);
    if (is_membership && watched_folders_.erase(folder) != 0)
      post([this, folder] { tell([&] { listener_->changed(folder); }); });
  }

  FakeWorld& world_;
  const bool starts_linked_;
  Listener* listener_ = nullptr;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::function<void(const std::function<void()>&)> teller_;
  std::deque<Task> tasks_;
  std::vector<Task> held_;
  std::set<std::string> watched_;          // guarded by the world's lock
  std::set<std::string> watched_folders_;  // guarded by the world's lock
  FakeWorld::Node old_;                    // guarded by the world's lock
  FakeWorld::Node* lagging_ = nullptr;     // guarded by the world's lock
  std::atomic<std::uint64_t> session_{0};
  std::atomic<bool> is_linked_{false};
  std::string refusal_;
  bool stopping_ = false;
  std::thread thread_;
};

inline void FakeWorld::put(const std::string& path, const std::string& data, std::uint64_t owner) {
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = nodes.try_emplace(path);
  Node& node = place->second;
  node.data = data;
  node.version = is_new ? 0 : node.version + 1;
  if (is_new) node.created = ++last_change;
  if (is_new) node.owner = owner;
  for (FakeDirectory* client : clients) client->fire(path, is_new);
}

inline void FakeWorld::erase(const std::string& path) {
  const std::lock_guard lock(mutex);
  nodes.erase(path);
  for (FakeDirectory* client : clients) client->fire(path, true);
}

}  // namespace ripc::internal::test
