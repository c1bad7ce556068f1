// SPDX-License-Identifier: Apache-2.0
// Finding services: the local resolver, the static file, the environment, what happens after failures.
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "puppet.hpp"
#include "support/cluster_key.hpp"

namespace conformance {
namespace {

constexpr ripc_service_id kRecordId = 4711;

ripc_service_info empty_info() {
  ripc_service_info info = initialized(ripc_service_info_init);
  return info;
}

class Resolver : public TransportTest {
 protected:
  void SetUp() override { context_ = make_context(); }

  ripc_status resolve(const Context& context, ripc_service_id id, ripc_service_info& info) {
    info = empty_info();
    return ripc_resolve(context.get(), id, &info);
  }
  ripc_status resolve(const Context& context, ripc_service_id id) {
    ripc_service_info info;
    return resolve(context, id, info);
  }
  ripc_status resolve_name(const Context& context, const char* name) {
    ripc_service_info info = empty_info();
    return ripc_resolve_name(context.get(), name, &info);
  }
  // Writes a file for the static resolver.
  std::string write_file(const std::string& text) {
    const std::string path = files_.path() + "/services";
    std::ofstream(path) << text;
    return path;
  }

  TemporaryDirectory files_;
  Context context_;
};
CONFORMANCE_SUITE(Resolver);

// ---- What is found -----------------------------------------------------------------------------------------------

TEST_P(Resolver, AServiceIsFoundWithAllThatIsKnownOfIt) {
  const Context other = make_context();
  const Service service = make_service(other, [](ripc_service_options& options) { options.name = "printer"; });
  ripc_service_info info;
  ASSERT_EQ(resolve(context_, id_of(service), info), RIPC_OK);
  EXPECT_EQ(info.id, id_of(service));
  EXPECT_EQ(info.incarnation, ripc_service_get_incarnation(service.get()));
  EXPECT_EQ(info.pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_STREQ(info.name, "printer");
  EXPECT_EQ(info.transport, GetParam());
  EXPECT_EQ(std::string(info.address).rfind(GetParam() + ":", 0), 0u) << info.address;
  EXPECT_STRNE(info.reason, "") << "it says why this path";

  ripc_service_info by_name = empty_info();
  ASSERT_EQ(ripc_resolve_name(context_.get(), "printer", &by_name), RIPC_OK);
  EXPECT_EQ(by_name.id, info.id);
}

TEST_P(Resolver, AServiceWithoutANameIsFoundById) {
  const Service service = make_service(context_, kRecordId);
  ripc_service_info info;
  ASSERT_EQ(resolve(context_, kRecordId, info), RIPC_OK) << "also from its own context";
  EXPECT_STREQ(info.name, "");
}

TEST_P(Resolver, AnUnknownServiceAnswersWithinTheResolveTimeout) {
  const Context context =
      make_context([](ripc_context_options& options) { options.resolve_timeout = 100 * kMillisecond; });
  const std::uint64_t start = now();
  EXPECT_EQ(resolve(context, 987654), RIPC_NO_SERVICE);
  EXPECT_EQ(resolve_name(context, "nobody"), RIPC_NO_SERVICE);
  EXPECT_LT(now() - start, kLimit / 2);
  EXPECT_EQ(resolve_name(context, "not/a/name"), RIPC_INVALID_ARGUMENT);
}

TEST_P(Resolver, WithoutTimeItLooksOnce) {
  const Context context = make_context([](ripc_context_options& options) { options.resolve_timeout = 0; });
  const Service service = make_service(context_, kRecordId);
  EXPECT_EQ(resolve(context, kRecordId), RIPC_OK);
  EXPECT_EQ(resolve(context, 987654), RIPC_NO_SERVICE);
}

// A service that does not receive keeps the queue of each link, even of a closed one.
TEST_P(Resolver, LookingForAPathOpensNoSecondLink) {
  const Service service = make_service(context_, kRecordId);
  const Context client = make_context();
  std::vector<std::thread> threads;
  std::atomic<int> found{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 25; ++round) {
        ripc_service_info info = empty_info();
        if (ripc_find_path(client.get(), kRecordId, &info) == RIPC_OK && info.transport == GetParam()) ++found;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, 100);
  // A path that loses packets is tried anew each time.
  if (GetParam() == "shm") {
    EXPECT_EQ(statistics_of(service).senders, 1u);
  }
}

TEST_P(Resolver, AServiceOfAKilledProcessIsNotFound) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(kRecordId), "RIPC_OK");
  ripc_service_info info;
  ASSERT_EQ(resolve(context_, kRecordId, info), RIPC_OK);
  EXPECT_EQ(info.pid, static_cast<std::uint32_t>(puppet.pid()));
  puppet.kill();
  EXPECT_EQ(resolve(context_, kRecordId), RIPC_NO_SERVICE);
}

TEST_P(Resolver, AServiceOfAStoppedProcessIsStillFound) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(kRecordId), "RIPC_OK");
  puppet.signal(SIGSTOP);
  EXPECT_EQ(resolve(context_, kRecordId), RIPC_OK);
  puppet.signal(SIGCONT);
}

TEST_P(Resolver, AfterATakeoverTheNewHolderIsFound) {
  const Context other = make_context();
  const Service old_holder = make_service(context_, kRecordId);
  const Service new_holder = make_service(other, [](ripc_service_options& options) {
    options.id = kRecordId;
    options.takeover = 1;
  });
  ripc_service_info info;
  ASSERT_EQ(resolve(context_, kRecordId, info), RIPC_OK);
  EXPECT_EQ(info.incarnation, ripc_service_get_incarnation(new_holder.get()));
}

// ---- The list ----------------------------------------------------------------------------------------------------

struct Listing {
  std::map<ripc_service_id, ripc_service_info> found;
  int visits = 0;
  std::thread::id thread;

  static void visit(void* user, const ripc_service_info* info) {
    auto* self = static_cast<Listing*>(user);
    self->found[info->id] = *info;
    self->thread = std::this_thread::get_id();
    ++self->visits;
  }
};

TEST_P(Resolver, EveryLivingServiceIsListedOnceInTheCallingThread) {
  const Context other = make_context();
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(3), "RIPC_OK");
  std::vector<Service> services;
  services.push_back(make_service(context_, 1));
  services.push_back(make_service(other, [](ripc_service_options& options) { options.name = "printer"; }));
  {
    Listing listing;
    ASSERT_EQ(ripc_list_services(context_.get(), Listing::visit, &listing), RIPC_OK);
    EXPECT_EQ(listing.visits, 3);
    EXPECT_EQ(listing.thread, std::this_thread::get_id());
    ASSERT_EQ(listing.found.size(), 3u);
    EXPECT_STREQ(listing.found[id_of(services[1])].name, "printer");
    EXPECT_EQ(listing.found[3].pid, static_cast<std::uint32_t>(puppet.pid()));
    EXPECT_GE(listing.found[1].size, sizeof(std::size_t));
    EXPECT_EQ(listing.found[1].transport, GetParam());
  }
  puppet.kill();
  services.clear();
  Listing listing;
  ASSERT_EQ(ripc_list_services(context_.get(), Listing::visit, &listing), RIPC_OK);
  EXPECT_EQ(listing.visits, 0);
}

// ---- Asking again ------------------------------------------------------------------------------------------------

TEST_P(Resolver, AnAnswerIsKeptUntilASendFails) {
  const Service client = make_service(context_);
  const Context first = make_context();
  const Context second = make_context();
  Service service = make_service(first, kRecordId);
  for (int count = 0; count < 10; ++count) {
    ASSERT_EQ(send(client, kRecordId, {}), RIPC_OK);
    receive(service);
  }
  EXPECT_EQ(statistics_of(client).resolutions, 1u);
  service.reset();
  service = make_service(second, kRecordId);
  ASSERT_EQ(send(client, kRecordId, {}), RIPC_OK) << "the failure is not seen by the caller";
  receive(service);
  EXPECT_EQ(statistics_of(client).resolutions, 2u);
}

TEST_P(Resolver, ThePathToAServiceIsTheOneThatAnswers) {
  const Service service = make_service(context_, kRecordId);
  const Context client = make_context();
  ripc_service_info info = initialized(ripc_service_info_init);
  ASSERT_EQ(ripc_find_path(client.get(), kRecordId, &info), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(info.transport, GetParam());
  EXPECT_EQ(std::string(info.address).rfind(GetParam() + ":", 0), 0u) << info.address;
  EXPECT_NE(std::string(info.reason), "");
  EXPECT_EQ(std::string(info.others), "") << "there is no other";
  EXPECT_EQ(ripc_find_path(client.get(), kRecordId + 1, &info), RIPC_NO_SERVICE);
}

TEST_P(Resolver, AServiceThatComesLaterIsFoundThen) {
  const Context context = make_context();
  const Service client = make_service(context);
  EXPECT_EQ(send(client, kRecordId, {}), RIPC_NO_SERVICE);
  const Service service = make_service(context_, kRecordId);
  EXPECT_EQ(send(client, kRecordId, {}), RIPC_OK) << "that it was not there is not remembered";
}

// ---- Runtime directories -----------------------------------------------------------------------------------------

TEST_P(Resolver, AnotherRuntimeDirectoryIsAnotherWorld) {
  TemporaryDirectory elsewhere;
  const Context other =
      make_context([&](ripc_context_options& options) { options.runtime_directory = elsewhere.path().c_str(); });
  const Service service = make_service(context_, kRecordId);
  EXPECT_EQ(resolve(other, kRecordId), RIPC_NO_SERVICE);
  EXPECT_NE(make_service(other, kRecordId), nullptr) << "the ID is free there";
}

TEST_P(Resolver, TheRuntimeDirectoryIsMadeIfItIsMissing) {
  const std::string path = files_.path() + "/made";
  const Context context =
      make_context([&](ripc_context_options& options) { options.runtime_directory = path.c_str(); });
  EXPECT_TRUE(std::filesystem::is_directory(path));
}

TEST_P(Resolver, ADirectoryThatCannotBeUsedIsAClearError) {
  const std::string path = write_file("this is a file\n");
  ripc_context_options options = context_options();
  options.runtime_directory = path.c_str();
  ripc_context* context = nullptr;
  EXPECT_NE(ripc_context_create(&options, &context), RIPC_OK);
  EXPECT_EQ(context, nullptr);
  EXPECT_NE(std::strstr(ripc_last_error(), path.c_str()), nullptr) << ripc_last_error();
}

class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Environment() { ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

TEST_P(Resolver, TheEnvironmentNamesWhatTheOptionsLeaveOpen) {
  const Service service = make_service(context_, kRecordId);
  const Environment directory("RIPC_RUNTIME_DIR", runtime_directory());
  const Environment transport("RIPC_TRANSPORTS", GetParam());
  ripc_context* handle = nullptr;
  ASSERT_EQ(ripc_context_create(nullptr, &handle), RIPC_OK) << ripc_last_error();
  const Context context(handle);
  const Service client = make_service(context);
  ASSERT_EQ(send_text(client, kRecordId, "hello"), RIPC_OK);
  EXPECT_EQ(text_of(receive(service)), "hello");
}

TEST_P(Resolver, WithoutRuntimeDirectoryXdgRuntimeDirIsUsed) {
  const Environment directory("XDG_RUNTIME_DIR", files_.path());
  const Context context = make_context([](ripc_context_options& options) { options.runtime_directory = nullptr; });
  EXPECT_TRUE(std::filesystem::is_directory(files_.path() + "/ripc"));
}

// Runs with a /tmp of its own, so that it touches none of this user's files. Answers with the directory that was made.
PEER_ROLE(default_directory) {
  ::unsetenv("XDG_RUNTIME_DIR");
  std::string command;
  if (!parent.next(command)) return 1;
  // The key of the tests may lie below /tmp.
  if (!support::give_cluster_key(::geteuid())) return 1;
  if (::mount("tmpfs", "/tmp", "tmpfs", 0, nullptr) != 0) return 1;
  ripc_context_options options = parent.context_options();
  options.runtime_directory = nullptr;
  ripc_context* context = nullptr;
  const ripc_status status = ripc_context_create(&options, &context);
  const std::string path = "/tmp/ripc-" + std::to_string(::geteuid());
  struct stat info {};
  const bool made = ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  parent.reply(status != RIPC_OK ? ripc_status_name(status) : made ? "made" : "not made");
  ripc_context_destroy(context);
  return (info.st_mode & 07777) == 0700 ? 0 : 2;
}

TEST_P(Resolver, WithoutAnythingADirectoryOfTheUserInTmpIsUsed) {
  if (const std::string reason = why_no_other_namespaces(); !reason.empty()) GTEST_SKIP() << reason;
  PeerSetup setup = peer_setup();
  setup.other_namespaces = true;
  Peer peer("default_directory", setup);
  EXPECT_EQ(peer.call("make"), "made");
  EXPECT_EQ(peer.finish(), 0) << "it is closed to others";
}

TEST_P(Resolver, AnUnknownTransportIsRefused) {
  ripc_context_options options = context_options();
  ripc_context* context = nullptr;
  for (const char* transports : {"pigeon", "shm,pigeon"}) {
    options.transports = transports;
    EXPECT_EQ(ripc_context_create(&options, &context), RIPC_INVALID_ARGUMENT) << transports;
    EXPECT_EQ(context, nullptr);
  }
}

// ---- The static file ---------------------------------------------------------------------------------------------

class StaticResolver : public Resolver {
 protected:
  void SetUp() override {
    if (traits().static_locator == nullptr) GTEST_SKIP() << "this transport has no address that is known beforehand";
    Resolver::SetUp();
    elsewhere_ = make_context([&](ripc_context_options& options) { options.runtime_directory = far_.path().c_str(); });
    service_ = make_service(elsewhere_, [](ripc_service_options& options) { options.name = "printer"; });
  }
  Context context_with(const std::string& file) {
    return make_context([&](ripc_context_options& options) { options.static_resolver = file.c_str(); });
  }
  std::string far_address() const { return traits().static_locator(far_.path()); }
  void expect_reached(const Context& context, ripc_service_id id, const Service& service) {
    const Service client = make_service(context);
    ASSERT_EQ(send_text(client, id, "hello"), RIPC_OK) << ripc_last_error();
    const Message message = receive(service);
    EXPECT_EQ(text_of(message), "hello");
    const std::string_view answer = "answer";
    const ripc_item one = item(answer);
    ASSERT_EQ(ripc_reply(service.get(), message.get(), &one, 1, nullptr, nullptr), RIPC_OK) << ripc_last_error();
    EXPECT_EQ(text_of(receive(client)), "answer") << "the reply finds its way without a resolver";
  }

  TemporaryDirectory far_;
  Context elsewhere_;
  Service service_;
};
CONFORMANCE_SUITE(StaticResolver);

TEST_P(StaticResolver, AFileNamesAServiceInAnotherRuntimeDirectory) {
  EXPECT_EQ(resolve_name(context_, "printer"), RIPC_NO_SERVICE);
  const std::string file = write_file("# services\n\nprinter " + far_address() + "\n");
  const Context context = context_with(file);
  EXPECT_EQ(resolve_name(context, "printer"), RIPC_OK);
  expect_reached(context, id_of(service_), service_);
}

TEST_P(StaticResolver, TheEnvironmentNamesTheFile) {
  const std::string file = write_file("printer " + far_address() + "\n");
  const Environment environment("RIPC_RESOLVER_FILE", file);
  expect_reached(make_context(), id_of(service_), service_);
}

TEST_P(StaticResolver, TheFileIsAskedFirst) {
  const Service near = make_service(context_, [](ripc_service_options& options) { options.name = "printer"; });
  const std::string file = write_file("printer " + far_address() + "\n");
  expect_reached(context_with(file), id_of(service_), service_);
}

TEST_P(StaticResolver, ServicesOutsideTheFileAreFoundAsUsual) {
  const Service near = make_service(context_, kRecordId);
  const std::string file = write_file("printer " + far_address() + "\n");
  expect_reached(context_with(file), kRecordId, near);
}

TEST_P(StaticResolver, ARestartedServiceIsReachedAgain) {
  const std::string file = write_file("printer " + far_address() + "\n");
  const Context context = context_with(file);
  expect_reached(context, id_of(service_), service_);
  const ripc_service_id id = id_of(service_);
  service_.reset();
  elsewhere_ = make_context([&](ripc_context_options& options) { options.runtime_directory = far_.path().c_str(); });
  service_ = make_service(elsewhere_, [](ripc_service_options& options) { options.name = "printer"; });
  expect_reached(context, id, service_);
}

TEST_P(StaticResolver, ABrokenOrMissingFileIsAClearError) {
  // The error comes when the context is made, or when the file is first needed.
  const auto expect_error_about = [&](const std::string& file) {
    ripc_context_options options = context_options();
    options.static_resolver = file.c_str();
    ripc_context* handle = nullptr;
    ripc_status status = ripc_context_create(&options, &handle);
    const Context context(handle);
    if (status == RIPC_OK) status = resolve_name(context, "printer");
    EXPECT_TRUE(status != RIPC_OK && status != RIPC_NO_SERVICE) << ripc_status_name(status);
    EXPECT_NE(std::strstr(ripc_last_error(), file.c_str()), nullptr) << ripc_last_error();
  };
  expect_error_about(files_.path() + "/missing");
  expect_error_about(write_file("printer\nthis is no address\n"));
}

TEST_P(StaticResolver, ACorrectedFileIsReadAgain) {
  const std::string file = write_file("# nothing yet\n");
  const Context context = context_with(file);
  EXPECT_EQ(resolve_name(context, "printer"), RIPC_NO_SERVICE);
  write_file("printer " + far_address() + "\n");
  expect_reached(context, id_of(service_), service_);
}

}  // namespace
}  // namespace conformance
