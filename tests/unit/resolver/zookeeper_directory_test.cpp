// SPDX-License-Identifier: Apache-2.0
// What the ZooKeeper directory makes of the client's answers, and that it answers each question without memory, too.
#include "resolver/zookeeper/zookeeper_directory.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/fork_guard.hpp"
#include "support/failing_allocation.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::resolver {
namespace {

using support::eventually;
using support::FailingAllocation;
using Kind = Directory::Write::Kind;

constexpr std::int64_t kSession = 7;

// A client whose ensemble has what each test says. Like the real one, it takes no memory by operator new.
class FakeClient {
 public:
  FakeClient() { current_ = this; }
  FakeClient(const FakeClient&) = delete;
  FakeClient& operator=(const FakeClient&) = delete;
  ~FakeClient() { current_ = nullptr; }

  static std::shared_ptr<const zk::Library> library() {
    auto made = std::make_shared<zk::Library>();
    made->init = [](const char* servers, zk::Watcher, int, const zk::ClientId*, void*, int, zk::Log) {
      if (current_->init_failure != 0) {
        errno = current_->init_failure;
        return static_cast<zk::Handle*>(nullptr);
      }
      current_->hosts = servers;
      current_->id_.id = kSession + current_->handles++;
      return reinterpret_cast<zk::Handle*>(current_);
    };
    made->close = [](auto...) {
      current_->is_closing = true;
      current_->was_let_close = eventually([] { return current_->may_close.load(); });
      return 0;
    };
    made->set_servers = [](auto...) { return 0; };
    made->set_resolution_delay = [](zk::Handle*, int delay) { return current_->resolution_delay = delay; };
    made->interest = [](zk::Handle*, int* fd, int* interest, timeval* timeout) {
      *fd = current_->wake_.get();
      *interest = current_->count_ != 0 ? zk::kWrite : 0;  // its descriptor can always be written
      *timeout = {current_->is_flapping || current_->is_cut ? 0 : 60, 0};
      return 0;
    };
    made->process = [](auto...) { return current_->answer_all(); };
    made->state = [](zk::Handle*) -> int {
      current_->is_cut_ = current_->is_flapping && !current_->is_cut_;
      return current_->is_cut_ || current_->is_cut ? 0 : zk::kConnectedState;
    };
    made->session_timeout = [](zk::Handle*) { return current_->session_timeout.load(); };
    made->client_id = [](zk::Handle*) -> const zk::ClientId* { return &current_->id_; };
    made->error_text = [](int) { return "a reason that is too long for a string without memory"; };
    made->get = [](zk::Handle*, const char* path, zk::Watcher, void*, zk::DataDone done, const void* data) {
      return current_->add({.path = path, .data_done = done, .data = data});
    };
    made->exists = [](zk::Handle*, const char*, zk::Watcher, void*, zk::StatDone done, const void* data) {
      return current_->add({.stat_done = done, .data = data});
    };
    made->children = [](zk::Handle*, const char*, zk::Watcher, void*, zk::StringsDone done, const void* data) {
      return current_->add({.strings_done = done, .data = data});
    };
    made->create = [](zk::Handle*, const char*, const char*, int, const zk::AccessList*, int, zk::StringDone done,
                      const void* data) {
      current_->has_folder = true;
      return current_->add({.string_done = done, .data = data});
    };
    made->sync = [](zk::Handle*, const char*, zk::StringDone done, const void* data) {
      ++current_->syncs;
      return current_->add({.string_done = done, .data = data});
    };
    made->multi = [](zk::Handle*, int count, const zk::Operation* operations, zk::OperationResult* results,
                     zk::VoidDone done, const void* data) {
      for (int i = 0; i < count; ++i) results[i].error = 0;
      int code = zk::kOk;
      for (int i = 0; i < count && code == zk::kOk; ++i) code = results[i].error = current_->code_of(operations[i]);
      if (code == zk::kOk) current_->committed = count;
      return current_->add({.code = code, .void_done = done, .data = data});
    };
    made->remove_watches = [](auto...) { return 0; };
    made->create_op = [](zk::Operation* operation, const char* path, const char*, int, const zk::AccessList*, int,
                         char*, int) { make(operation, zk::kCreateOperation, path); };
    made->delete_op = [](zk::Operation* operation, const char* path, int) { make(operation, kDelete, path); };
    made->set_op = [](zk::Operation* operation, const char* path, const char*, int, int, zk::Stat*) {
      make(operation, kSet, path);
    };
    made->check_op = [](zk::Operation* operation, const char* path, int) { make(operation, kCheck, path); };
    return made;
  }

  std::atomic<bool> has_folder = true;
  int committed = 0;    // the operations of the last commit that was made
  std::string removed;  // the path of a node that someone has removed
  std::atomic<int> init_failure = 0;
  std::atomic<int> handles = 0;
  std::string hosts;  // that the last handle was made for
  int resolution_delay = 0;
  std::atomic<int> session_timeout = 10'000;
  std::atomic<unsigned> syncs = 0;
  std::atomic<bool> is_cut = false;
  std::atomic<bool> is_flapping = false;  // each connection is lost without an answer
  std::atomic<bool> may_close = true;
  std::atomic<bool> is_closing = false;
  bool was_let_close = false;  // before it gave up

 private:
  static constexpr int kNoAuth = -102;
  static constexpr int kDelete = 2;
  static constexpr int kSet = 5;
  static constexpr int kCheck = 13;
  static inline FakeClient* current_ = nullptr;

  struct Answer {
    int code = zk::kOk;
    const char* path = "";
    zk::DataDone data_done = nullptr;
    zk::StatDone stat_done = nullptr;
    zk::StringsDone strings_done = nullptr;
    zk::StringDone string_done = nullptr;
    zk::VoidDone void_done = nullptr;
    const void* data = nullptr;
  };

  static void make(zk::Operation* operation, int type, const char* path) {
    *operation = {};
    operation->type = type;
    operation->create.path = path;
  }
  int add(const Answer& answer) {
    answers_.at(count_++) = answer;
    return zk::kOk;
  }
  int code_of(const zk::Operation& operation) const {
    const bool is_gone = operation.type == kDelete && operation.create.path == removed;
    return is_gone || (operation.type == kSet && !has_folder) ? zk::kNoNode : zk::kOk;
  }
  int answer_all() {
    const std::array<Answer, 64> answers = answers_;
    const std::size_t count = std::exchange(count_, 0);
    for (std::size_t i = 0; i < count; ++i) {
      const Answer& answer = answers.at(i);
      const zk::Stat stat{};
      const int code = std::string_view(answer.path).ends_with("forbidden") ? kNoAuth : answer.code;
      constexpr std::string_view kData = "a record that is too long for a string without memory";
      std::string_view child = "the name of a child that is too long for a string without memory";
      auto* name = const_cast<char*>(child.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast): as the client's
      const zk::Strings names{.count = 1, .data = &name};
      if (answer.data_done != nullptr)
        answer.data_done(code, kData.data(), static_cast<int>(kData.size()), &stat, answer.data);
      if (answer.stat_done != nullptr) answer.stat_done(code, &stat, answer.data);
      if (answer.strings_done != nullptr) answer.strings_done(code, &names, answer.data);
      if (answer.string_done != nullptr) answer.string_done(code, "", answer.data);
      if (answer.void_done != nullptr) answer.void_done(code, answer.data);
    }
    return zk::kOk;
  }

  zk::ClientId id_{};
  bool is_cut_ = false;
  const UniqueFd wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::array<Answer, 64> answers_{};
  std::size_t count_ = 0;
};

class Listener final : public Directory::Listener {
 public:
  void link_up(std::uint64_t, bool) override { ++link_ups; }
  void link_down() override { ++link_downs; }
  void changed(std::string_view) override {}
  std::atomic<unsigned> link_ups = 0;
  std::atomic<unsigned> link_downs = 0;
};

class ZooKeeperDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<ZooKeeperDirectory>> made =
        ZooKeeperDirectory::create({.servers = {{.host = "localhost"}, {.host = "::1"}}}, FakeClient::library());
    ASSERT_TRUE(made.ok()) << made.status().text();
    directory_ = std::move(*made);
    ASSERT_TRUE(directory_->start(listener_).ok());
    ASSERT_TRUE(eventually([&] { return listener_.link_ups == 1; }));
  }
  void TearDown() override { directory_.reset(); }

  std::array<std::atomic<unsigned>, 6> answers_{};
  FakeClient client_;
  Listener listener_;
  std::unique_ptr<ZooKeeperDirectory> directory_;
};

TEST_F(ZooKeeperDirectoryTest, EveryQuestionIsAnsweredOnceEvenWithoutMemory) {
  bool has_failed = true;
  unsigned nth = 1;
  for (; has_failed && !HasFailure(); ++nth) {
    SCOPED_TRACE(testing::Message() << "allocation " << nth);
    client_.has_folder = false;
    const auto count = [&](std::size_t which) {
      return [&, which](const Directory::Answer&) { ++answers_.at(which); };
    };
    const FailingAllocation failing(nth, FailingAllocation::Where::elsewhere);
    directory_->get("/s/a-folder-with-a-long-name/one", Directory::Read::exact, count(0));
    directory_->get("/s/a-folder-with-a-long-name/forbidden", Directory::Read::watched, count(1));
    directory_->commit(kSession, {{Kind::create, "/s/a-folder-with-a-long-name/two", "data", {}}}, count(2));
    directory_->children("/s/a-folder-with-a-long-name", false, count(3));
    directory_->sync(count(4));
    directory_->get("/s/a-folder-with-a-long-name/three", Directory::Read::plain, count(5));
    EXPECT_TRUE(eventually([&] {
      return std::ranges::all_of(answers_, [&](const auto& answers) { return answers == nth; });
    })) << "a question is not answered";
    has_failed = failing.failed();
  }
  EXPECT_GT(nth, 10U);
}

TEST_F(ZooKeeperDirectoryTest, AMembershipThatSomeoneHasRemovedDoesNotBlockTheRestOfACommit) {
  constexpr std::string_view kMember = "/g/1/2.7";
  client_.removed = std::string(kDefaultChroot) + std::string(kMember);
  std::atomic<int> outcome = -1;
  directory_->commit(
      kSession,
      {{Kind::remove, "/s/00/2", {}, {}}, {Kind::drop, std::string(kMember), {}, {}}, {Kind::drop, "/g/3/2.7", {}, {}}},
      [&](const Directory::Answer& answer) { outcome = static_cast<int>(answer.outcome); });
  EXPECT_TRUE(eventually([&] { return outcome != -1; }));
  EXPECT_EQ(outcome, static_cast<int>(Directory::Outcome::done));
  EXPECT_EQ(client_.committed, 3) << "the check of the folder, the removal and the other membership";
}

TEST_F(ZooKeeperDirectoryTest, ACommitOfAFormerSessionIsNotMade) {
  std::atomic<int> outcome = -1;
  directory_->commit(kSession - 1, {{Kind::create, "/s/00/2", {}, {}}},
                     [&](const Directory::Answer& answer) { outcome = static_cast<int>(answer.outcome); });
  EXPECT_TRUE(eventually([&] { return outcome != -1; }));
  EXPECT_EQ(outcome, static_cast<int>(Directory::Outcome::unknown));
  EXPECT_EQ(client_.committed, 0);
}

TEST_F(ZooKeeperDirectoryTest, TheClientGetsAddressesAndLooksNothingUpWhileItIsConnected) {
  EXPECT_NE(client_.hosts.find("::1:2181"), std::string::npos) << client_.hosts;
  EXPECT_EQ(client_.hosts.find_first_of("[]ol"), std::string::npos) << client_.hosts;
  EXPECT_EQ(client_.resolution_delay, -1);
}

TEST_F(ZooKeeperDirectoryTest, AClientThatCannotBeSetUpIsReportedAsSuch) {
  client_.init_failure = ENOMEM;
  Result<std::unique_ptr<ZooKeeperDirectory>> made =
      ZooKeeperDirectory::create({.servers = {{.host = "::1"}}}, FakeClient::library());
  ASSERT_TRUE(made.ok()) << made.status().text();
  directory_ = std::move(*made);
  ASSERT_TRUE(directory_->start(listener_).ok());
  EXPECT_TRUE(eventually([&] { return !directory_->trouble().empty(); }));
  EXPECT_EQ(directory_->trouble(), "its client cannot be set up (Cannot allocate memory)");
}

TEST_F(ZooKeeperDirectoryTest, AnEnsembleThatEndsEachConnectionGetsANewSession) {
  client_.session_timeout = 50;
  client_.is_flapping = true;
  directory_->sync({});  // wakes the thread
  EXPECT_TRUE(eventually([&] { return client_.handles > 1; }));
}

TEST_F(ZooKeeperDirectoryTest, ASessionThatComesBackIsAskedForAnAnswerThatProvesIt) {
  EXPECT_EQ(client_.syncs, 0U);
  client_.is_cut = true;
  directory_->forget("/s");  // wakes the thread
  ASSERT_TRUE(eventually([&] { return listener_.link_downs == 1; }));
  client_.is_cut = false;
  EXPECT_TRUE(eventually([&] { return client_.syncs == 1; }));
  EXPECT_EQ(client_.handles, 1);
}

TEST_F(ZooKeeperDirectoryTest, AForkDoesNotWaitForServersThatDoNotConfirmTheEndOfASession) {
  client_.may_close = false;
  std::jthread stopper([&] { directory_->stop(); });
  ASSERT_TRUE(eventually([&] { return client_.is_closing.load(); }));
  const UniqueFd fd(::eventfd(0, EFD_CLOEXEC));
  const ForkGuard guard(fd.get());  // waits as a fork does
  client_.may_close = true;
  stopper.join();
  EXPECT_TRUE(client_.was_let_close);
}

}  // namespace
}  // namespace ripc::internal::resolver
