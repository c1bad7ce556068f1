// SPDX-License-Identifier: Apache-2.0
// What holds for every call: statuses, error sentences, NULL handles, sized structures, self-check.
#include <array>
#include <cstring>
#include <set>
#include <thread>

#include "puppet.hpp"
#include "ripc/rpc.h"

namespace conformance {
namespace {

constexpr int kStatuses = 28;

static_assert(RIPC_OK == 0 && RIPC_AGAIN == 1 && RIPC_EMPTY == 2 && RIPC_PENDING == 3 && RIPC_TIMEOUT == 4);
static_assert(RIPC_INTERRUPTED == 5 && RIPC_TOO_LARGE == 6 && RIPC_NO_SERVICE == 7 && RIPC_PEER_DEAD == 8);
static_assert(RIPC_REFUSED == 9 && RIPC_NO_WINDOW == 10 && RIPC_WINDOW_TOO_SMALL == 11 && RIPC_ID_IN_USE == 12);
static_assert(RIPC_NAME_COLLISION == 13 && RIPC_FENCED == 14 && RIPC_CLOSED == 15 && RIPC_INVALID_ARGUMENT == 16);
static_assert(RIPC_NO_MEMORY == 17 && RIPC_NO_DESCRIPTORS == 18 && RIPC_LIMIT == 19 && RIPC_PERMISSION == 20);
static_assert(RIPC_VERSION_MISMATCH == 21 && RIPC_CANCELLED == 22 && RIPC_REVOKED == 23 && RIPC_CORRUPT == 24);
static_assert(RIPC_UNSUPPORTED == 25 && RIPC_FORKED == 26 && RIPC_SYSTEM == 27);
static_assert(RIPC_MAX_ITEMS == 64 && RIPC_MAX_RETURNS == 16 && RIPC_FOREVER == UINT64_MAX);

using Calls = PairTest;
CONFORMANCE_SUITE(Calls);

// ---- Statuses and sentences --------------------------------------------------------------------------------------

TEST_P(Calls, EveryStatusHasANameAndASentence) {
  std::set<std::string> names;
  std::set<std::string> texts;
  for (int value = 0; value < kStatuses; ++value) {
    const auto status = static_cast<ripc_status>(value);
    const std::string name = ripc_status_name(status);
    const std::string text = ripc_status_text(status);
    EXPECT_EQ(name.rfind("RIPC_", 0), 0u) << name;
    EXPECT_GT(text.size(), 5u) << name;
    names.insert(name);
    texts.insert(text);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kStatuses));
  EXPECT_EQ(texts.size(), static_cast<std::size_t>(kStatuses));
  EXPECT_STREQ(ripc_status_name(RIPC_AGAIN), "RIPC_AGAIN");
  EXPECT_STREQ(ripc_status_name(RIPC_SYSTEM), "RIPC_SYSTEM");
}

TEST_P(Calls, UnknownStatusesHaveANameAndASentence) {
  EXPECT_NE(ripc_status_name(static_cast<ripc_status>(31)), nullptr);
  EXPECT_NE(ripc_status_text(static_cast<ripc_status>(31)), nullptr);
}

TEST_P(Calls, TheLibraryHasTheVersionOfItsHeaders) {
  const std::string headers = std::to_string(RIPC_VERSION_MAJOR) + "." + std::to_string(RIPC_VERSION_MINOR) + "." +
                              std::to_string(RIPC_VERSION_PATCH);
  EXPECT_EQ(ripc_version(), headers);
}

TEST_P(Calls, TheLastErrorIsASentenceOfTheCallingThread) {
  EXPECT_NE(ripc_last_error(), nullptr);
  ASSERT_EQ(send_text(client_, 987654321, "hello"), RIPC_NO_SERVICE);
  const std::string here = ripc_last_error();
  EXPECT_GT(here.size(), 10u);
  std::jthread other([&] {
    EXPECT_NE(std::string(ripc_last_error()), here) << "another thread has its own";
    EXPECT_EQ(ripc_context_create(nullptr, nullptr), RIPC_INVALID_ARGUMENT);
    EXPECT_GT(std::strlen(ripc_last_error()), 10u);
  });
  other.join();
  EXPECT_EQ(ripc_last_error(), here) << "what another thread did does not change it";
}

TEST_P(Calls, TheLastErrorStaysUntilTheNextCallThatFails) {
  ASSERT_EQ(send_text(client_, 987654321, "hello"), RIPC_NO_SERVICE);
  const std::string sentence = ripc_last_error();
  ASSERT_EQ(send_text(client_, server_id(), "hello"), RIPC_OK);
  receive(server_);
  EXPECT_EQ(ripc_interrupt(nullptr), RIPC_INVALID_ARGUMENT) << "which may run in a signal handler";
  EXPECT_EQ(ripc_last_error(), sentence);
  ripc_message* none = nullptr;
  EXPECT_EQ(ripc_receive(server_.get(), 0, 0, &none), RIPC_EMPTY);
  EXPECT_STREQ(ripc_last_error(), ripc_status_text(RIPC_EMPTY));
}

// ---- NULL --------------------------------------------------------------------------------------------------------

TEST_P(Calls, ANullHandleOrPointerIsAnInvalidArgumentNotACrash) {
  ripc_context* const context = client_context_.get();
  ripc_service* const service = client_.get();
  ripc_context* no_context = nullptr;
  ripc_service* no_service = nullptr;
  ripc_message* message = nullptr;
  ripc_service_id id = 0;
  std::size_t size = 0;
  std::uint64_t number = 0;
  void* data = nullptr;
  int fd = 0;
  char byte = 0;
  const ripc_item one = item_at(&byte, 1, RIPC_ITEM_SHORT);
  ripc_notification notification{};
  ripc_service_info info = initialized(ripc_service_info_init);
  ripc_pool_statistics pool = initialized(ripc_pool_statistics_init);
  ripc_service_statistics statistics = initialized(ripc_service_statistics_init);
  ripc_item_view view;
  const auto visit_service = [](void*, const ripc_service_info*) {};
  const auto visit_finding = [](void*, const ripc_finding*) {};
  const auto ring = [](void*, ripc_service_id, const ripc_item_view*, std::size_t) {};

#define EXPECT_REFUSED(call) EXPECT_EQ(call, RIPC_INVALID_ARGUMENT)
  EXPECT_REFUSED(ripc_context_create(nullptr, nullptr));
  EXPECT_REFUSED(ripc_id_from_name(nullptr, &id));
  EXPECT_REFUSED(ripc_id_from_name("name", nullptr));
  EXPECT_REFUSED(ripc_service_register(nullptr, nullptr, &no_service));
  EXPECT_REFUSED(ripc_service_register(context, nullptr, nullptr));
  EXPECT_REFUSED(ripc_send(nullptr, server_id(), &one, 1, nullptr, nullptr));
  EXPECT_REFUSED(ripc_send(service, server_id(), nullptr, 1, nullptr, nullptr));
  EXPECT_REFUSED(ripc_reply(nullptr, nullptr, nullptr, 0, nullptr, nullptr));
  EXPECT_REFUSED(ripc_reply(service, nullptr, nullptr, 0, nullptr, nullptr));
  EXPECT_REFUSED(ripc_request_cancel(nullptr, 1));
  EXPECT_REFUSED(ripc_short_limit(nullptr, server_id(), 1, &size));
  EXPECT_REFUSED(ripc_short_limit(service, server_id(), 1, nullptr));
  EXPECT_REFUSED(ripc_wait_room(nullptr, server_id(), 0));
  EXPECT_REFUSED(ripc_request_room_event(nullptr, server_id()));
  EXPECT_REFUSED(ripc_ticket_poll(nullptr));
  EXPECT_REFUSED(ripc_ticket_wait(nullptr, 0));
  EXPECT_REFUSED(ripc_ticket_cancel(nullptr));
  EXPECT_REFUSED(ripc_window_post(nullptr, &byte, 1, 0));
  EXPECT_REFUSED(ripc_window_post(service, nullptr, 1, 0));
  EXPECT_REFUSED(ripc_context_window_post(nullptr, &byte, 1, 0));
  EXPECT_REFUSED(ripc_context_window_post(context, nullptr, 1, 0));
  EXPECT_REFUSED(ripc_window_withdraw(nullptr, 0, &size));
  EXPECT_REFUSED(ripc_context_window_withdraw(nullptr, 0, &size));
  EXPECT_REFUSED(ripc_receive(nullptr, 0, 0, &message));
  EXPECT_REFUSED(ripc_receive(service, 0, 0, nullptr));
  EXPECT_REFUSED(ripc_receive_many(nullptr, 0, 0, &message, 1, &size));
  EXPECT_REFUSED(ripc_receive_many(service, 0, 0, nullptr, 1, &size));
  EXPECT_REFUSED(ripc_receive_many(service, 0, 0, &message, 1, nullptr));
  EXPECT_REFUSED(ripc_receive_many(service, 0, 0, &message, 0, &size)) << "a capacity of 0";
  alignas(8) std::array<unsigned char, RIPC_MAX_RECORD + 8> records;
  EXPECT_REFUSED(ripc_receive_records(nullptr, 0, 0, records.data(), records.size(), 1, &size));
  EXPECT_REFUSED(ripc_receive_records(service, 0, 0, nullptr, records.size(), 1, &size));
  EXPECT_REFUSED(ripc_receive_records(service, 0, 0, records.data(), records.size(), 1, nullptr));
  EXPECT_REFUSED(ripc_receive_records(service, 0, 0, records.data(), records.size(), 0, &size));
  EXPECT_REFUSED(ripc_receive_records(service, 2, 0, records.data(), records.size(), 1, &size));
  EXPECT_REFUSED(ripc_receive_records(service, 0, 0, records.data() + 1, RIPC_MAX_RECORD, 1, &size)) << "alignment";
  EXPECT_REFUSED(ripc_receive_records(service, 0, 0, records.data(), RIPC_MAX_RECORD - 1, 1, &size)) << "no room";
  EXPECT_REFUSED(ripc_interrupt(nullptr));
  EXPECT_REFUSED(ripc_service_get_fd(nullptr, &fd));
  EXPECT_REFUSED(ripc_service_get_fd(service, nullptr));
  EXPECT_REFUSED(ripc_message_get_item(nullptr, 0, &view));
  EXPECT_REFUSED(ripc_notification_register(nullptr, ring, nullptr, &notification));
  EXPECT_REFUSED(ripc_notification_register(service, nullptr, nullptr, &notification));
  EXPECT_REFUSED(ripc_notification_register(service, ring, nullptr, nullptr));
  EXPECT_REFUSED(ripc_notification_unregister(nullptr, &notification));
  EXPECT_REFUSED(ripc_notification_unregister(service, nullptr));
  EXPECT_REFUSED(ripc_notify(nullptr, &notification, nullptr, 0));
  EXPECT_REFUSED(ripc_notify(service, nullptr, nullptr, 0));
  EXPECT_REFUSED(ripc_buffer_lease(nullptr, 1, &data));
  EXPECT_REFUSED(ripc_buffer_lease(context, 1, nullptr));
  EXPECT_REFUSED(ripc_buffer_release(nullptr, &byte));
  EXPECT_REFUSED(ripc_buffer_release(context, nullptr));
  EXPECT_REFUSED(ripc_buffer_find(nullptr, &byte, &data, &size));
  EXPECT_REFUSED(ripc_buffer_find(context, nullptr, &data, &size));
  EXPECT_REFUSED(ripc_memory_register(nullptr, &byte, 1));
  EXPECT_REFUSED(ripc_memory_register(context, nullptr, 1));
  EXPECT_REFUSED(ripc_memory_unregister(nullptr, &byte));
  EXPECT_REFUSED(ripc_memory_unregister(context, nullptr));
  EXPECT_REFUSED(ripc_pool_get_statistics(nullptr, &pool));
  EXPECT_REFUSED(ripc_pool_get_statistics(context, nullptr));
  EXPECT_REFUSED(ripc_resolve(nullptr, 1, &info));
  EXPECT_REFUSED(ripc_resolve(context, 1, nullptr));
  EXPECT_REFUSED(ripc_find_path(nullptr, 1, &info));
  EXPECT_REFUSED(ripc_find_path(context, 1, nullptr));
  EXPECT_REFUSED(ripc_find_path(context, 0, &info));
  EXPECT_REFUSED(ripc_resolve_name(nullptr, "name", &info));
  EXPECT_REFUSED(ripc_resolve_name(context, nullptr, &info));
  EXPECT_REFUSED(ripc_resolve_name(context, "name", nullptr));
  EXPECT_REFUSED(ripc_list_services(nullptr, visit_service, nullptr));
  EXPECT_REFUSED(ripc_list_services(context, nullptr, nullptr));
  EXPECT_REFUSED(ripc_diagnose(nullptr, nullptr, nullptr));
  EXPECT_REFUSED(ripc_service_get_statistics(nullptr, &statistics));
  EXPECT_REFUSED(ripc_service_get_statistics(service, nullptr));
  const ripc_outgoing outgoing{&one, 1, 0};
  ripc_security_statistics security{sizeof security, 0, 0, 0, 0, 0, 0};
  const auto visit_rail = [](void*, const ripc_rail_info*) {};
  const auto notice = [](void*, ripc_status, const ripc_service_info*) {};
  ripc_watch* watch = nullptr;
  EXPECT_REFUSED(ripc_send_many(nullptr, server_id(), &outgoing, 1, nullptr, nullptr, &size));
  EXPECT_REFUSED(ripc_send_many(service, server_id(), nullptr, 1, nullptr, nullptr, &size));
  EXPECT_REFUSED(ripc_service_register_many(nullptr, nullptr, 0, &no_service));
  EXPECT_REFUSED(ripc_service_register_many(context, nullptr, 1, &no_service));
  EXPECT_REFUSED(ripc_list_rails(nullptr, server_id(), visit_rail, nullptr));
  EXPECT_REFUSED(ripc_list_rails(context, server_id(), nullptr, nullptr));
  EXPECT_REFUSED(ripc_wait_service(nullptr, server_id(), 0, &info));
  EXPECT_REFUSED(ripc_wait_service_name(nullptr, "name", 0, &info));
  EXPECT_REFUSED(ripc_wait_service_name(context, nullptr, 0, &info));
  EXPECT_REFUSED(ripc_service_watch(nullptr, server_id(), notice, nullptr, &watch));
  EXPECT_REFUSED(ripc_service_watch(context, server_id(), nullptr, nullptr, &watch));
  EXPECT_REFUSED(ripc_service_watch(context, server_id(), notice, nullptr, nullptr));
  EXPECT_REFUSED(ripc_security_get_statistics(nullptr, &security));
  EXPECT_REFUSED(ripc_security_get_statistics(context, nullptr));
  EXPECT_REFUSED(ripc_trust_status(nullptr));
  EXPECT_REFUSED(ripc_rpc_create(service, nullptr, nullptr));
  EXPECT_REFUSED(ripc_rpc_handle(nullptr, 1, 0, nullptr, nullptr));
  EXPECT_REFUSED(ripc_rpc_call(nullptr, server_id(), 1, nullptr, 0, nullptr, nullptr, nullptr, &number));
  EXPECT_REFUSED(ripc_rpc_call_wait(nullptr, server_id(), 1, nullptr, 0, nullptr, nullptr));
  EXPECT_REFUSED(ripc_rpc_cancel(nullptr, 1));
  EXPECT_REFUSED(ripc_rpc_run(nullptr, 0, nullptr));
  EXPECT_REFUSED(ripc_rpc_get_statistics(nullptr, nullptr));
  EXPECT_REFUSED(ripc_rpc_list_methods(nullptr, nullptr, nullptr));
  EXPECT_REFUSED(ripc_request_reply(nullptr, 0, nullptr, 0, nullptr));
  EXPECT_REFUSED(ripc_request_get_item(nullptr, 0, &view));
#undef EXPECT_REFUSED
  EXPECT_EQ(ripc_diagnose(nullptr, visit_finding, nullptr), RIPC_OK) << "options may be NULL";
  EXPECT_EQ(no_context, nullptr);
  EXPECT_EQ(number, 0u);

  ASSERT_EQ(send(client_, server_id(), {}), RIPC_OK);
  const Message held = receive(server_);
  EXPECT_EQ(ripc_message_get_item(held.get(), 0, nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_reply(nullptr, held.get(), nullptr, 0, nullptr, nullptr), RIPC_INVALID_ARGUMENT);
}

TEST_P(Calls, NullHasHarmlessAttributesAndIsIgnoredByDestructors) {
  ripc_context_destroy(nullptr);
  ripc_service_unregister(nullptr);
  ripc_message_release(nullptr);
  ripc_view_hold_release(nullptr);
  ripc_ticket_release(nullptr);
  ripc_service_unwatch(nullptr);
  ripc_rpc_destroy(nullptr);
  ripc_request_drop(nullptr, RIPC_OK);
  ripc_request_refuse(nullptr, RIPC_OK);
  EXPECT_EQ(ripc_request_get_source(nullptr), 0u);
  EXPECT_EQ(ripc_request_get_method(nullptr), 0u);
  EXPECT_EQ(ripc_request_get_item_count(nullptr), 0u);
  EXPECT_EQ(ripc_request_get_return_count(nullptr), 0u);
  EXPECT_EQ(ripc_request_get_return_size(nullptr, 0), 0u);
  EXPECT_EQ(ripc_request_time_left(nullptr), 0u);
  EXPECT_EQ(ripc_service_get_id(nullptr), 0u);
  EXPECT_STREQ(ripc_service_get_name(nullptr), "");
  EXPECT_EQ(ripc_service_get_incarnation(nullptr), 0u);
  EXPECT_EQ(ripc_service_get_context(nullptr), nullptr);
  EXPECT_EQ(ripc_message_get_source(nullptr), 0u);
  EXPECT_EQ(ripc_message_get_tag(nullptr), 0u);
  EXPECT_EQ(ripc_message_get_item_count(nullptr), 0u);
  EXPECT_EQ(ripc_message_get_in_reply_to(nullptr), 0u);
  EXPECT_EQ(ripc_message_get_return_count(nullptr), 0u);
  EXPECT_EQ(ripc_message_get_return_size(nullptr, 0), 0u);
}

// ---- Sized structures --------------------------------------------------------------------------------------------

constexpr int kGarbage = 0xee;

template <typename T>
T garbage() {
  T structure;
  std::memset(static_cast<void*>(&structure), kGarbage, sizeof structure);
  return structure;
}

// Returns the structure as its init function leaves it; it was garbage before.
template <typename T>
T defaults(void (*init)(T*)) {
  T structure = garbage<T>();
  init(&structure);
  EXPECT_EQ(structure.size, sizeof structure);
  init(nullptr);
  return structure;
}

// Returns a structure for a caller of a version in which it had only `size` bytes.
template <typename T>
T result_of_size(std::size_t size) {
  T structure = garbage<T>();
  structure.size = size;
  return structure;
}

TEST_P(Calls, InitFillsInTheSizeAndTheDefaults) {
  const ripc_context_options context_options = defaults(ripc_context_options_init);
  EXPECT_EQ(context_options.runtime_directory, nullptr);
  EXPECT_EQ(context_options.transports, nullptr);
  EXPECT_EQ(context_options.static_resolver, nullptr);
  EXPECT_EQ(context_options.pool_limit, 0u);
  EXPECT_EQ(context_options.resolve_timeout, RIPC_DEFAULT_TIME);
  EXPECT_EQ(context_options.spin, RIPC_DEFAULT_TIME);
  EXPECT_EQ(context_options.peer_policy, UINT32_MAX);
  EXPECT_EQ(context_options.max_peers, 0u);
  EXPECT_EQ(context_options.zookeeper, nullptr);
  EXPECT_EQ(context_options.cluster_key_file, nullptr);
  EXPECT_EQ(context_options.identity_file, nullptr);
  EXPECT_EQ(context_options.trust_file, nullptr);
  EXPECT_EQ(context_options.network, UINT32_MAX);
  EXPECT_EQ(context_options.encrypt, UINT32_MAX);

  const ripc_service_options service_options = defaults(ripc_service_options_init);
  EXPECT_EQ(service_options.id, 0u);
  EXPECT_EQ(service_options.name, nullptr);
  EXPECT_EQ(service_options.takeover, 0u);
  EXPECT_EQ(service_options.queue_messages, 0u);
  EXPECT_EQ(service_options.queue_bytes, 0u);
  EXPECT_EQ(service_options.max_senders, 0u);
  EXPECT_EQ(service_options.max_messages, 0u);

  const ripc_send_options options = defaults(ripc_send_options_init);
  EXPECT_EQ(options.tag, 0u);
  EXPECT_EQ(options.return_count, 0u);
  EXPECT_EQ(options.returns, nullptr);
  EXPECT_EQ(options.timeout, RIPC_DEFAULT_TIME);
  EXPECT_EQ(options.callback, nullptr);
  EXPECT_EQ(options.user, nullptr);
  EXPECT_EQ(options.request_id, nullptr);
  EXPECT_EQ(options.outcome, nullptr);
  EXPECT_EQ(options.flags, 0u);

  const ripc_call_options call_options = defaults(ripc_call_options_init);
  EXPECT_EQ(call_options.timeout, RIPC_DEFAULT_TIME);
  EXPECT_EQ(call_options.return_count, 0u);
  EXPECT_EQ(call_options.returns, nullptr);
  EXPECT_EQ(call_options.parent, nullptr);
  EXPECT_EQ(call_options.loan_ended, nullptr);
  EXPECT_EQ(call_options.idempotent, 0u);

  const ripc_peer peer = defaults(ripc_peer_init);
  EXPECT_EQ(peer.is_on_this_host, 0u);
  EXPECT_EQ(peer.user, UINT32_MAX) << "unknown";
  EXPECT_STREQ(peer.identity, "");
}

template <typename T>
void expect_only_the_size(void (*init)(T*)) {
  T expected;
  std::memset(static_cast<void*>(&expected), 0, sizeof expected);
  expected.size = sizeof expected;
  const T structure = defaults(init);
  EXPECT_EQ(std::memcmp(&structure, &expected, sizeof structure), 0);
}

TEST_P(Calls, InitFunctionsOfResultsSetTheSizeAndZeroTheRest) {
  expect_only_the_size(ripc_group_outcome_init);
  expect_only_the_size(ripc_service_info_init);
  expect_only_the_size(ripc_service_statistics_init);
  expect_only_the_size(ripc_pool_statistics_init);
  expect_only_the_size(ripc_security_statistics_init);
  expect_only_the_size(ripc_rpc_options_init);
  expect_only_the_size(ripc_rpc_statistics_init);
  expect_only_the_size(ripc_call_result_init);
}

// A caller that was built with an older header has shorter structures; fields that it lacks have their defaults.
TEST_P(Calls, OptionsOfAnOlderCallerAreAccepted) {
  ripc_send_options send_part = send_options();
  send_part.size = offsetof(ripc_send_options, return_count);
  send_part.tag = 5;
  send_part.return_count = 999;  // beyond its size
  ASSERT_EQ(ripc_send(client_.get(), server_id(), nullptr, 0, &send_part, nullptr), RIPC_OK);
  EXPECT_EQ(ripc_message_get_tag(receive(server_).get()), 5u);

  ripc_service_options service_part = initialized(ripc_service_options_init);
  service_part.size = offsetof(ripc_service_options, name);
  service_part.id = 4711;
  service_part.queue_messages = 999;  // beyond its size
  ripc_service* service = nullptr;
  ASSERT_EQ(ripc_service_register(client_context_.get(), &service_part, &service), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(ripc_service_get_id(service), 4711u);
  ripc_service_unregister(service);

  ripc_context_options context_part = context_options();
  context_part.size = offsetof(ripc_context_options, pool_limit);
  context_part.pool_limit = 1;
  context_part.peer_policy = 999;
  ripc_context* context = nullptr;
  ASSERT_EQ(ripc_context_create(&context_part, &context), RIPC_OK) << ripc_last_error();
  const Context older(context);
  EXPECT_GT(pool_statistics_of(older).limit, 1u);
}

TEST_P(Calls, OptionsOfANewerCallerAreAccepted) {
  struct {
    ripc_send_options known;
    char unknown[64];
  } newer{};
  ripc_send_options_init(&newer.known);
  newer.known.size = sizeof newer;
  newer.known.tag = 6;
  std::memset(newer.unknown, 0xee, sizeof newer.unknown);
  ASSERT_EQ(ripc_send(client_.get(), server_id(), nullptr, 0, &newer.known, nullptr), RIPC_OK);
  EXPECT_EQ(ripc_message_get_tag(receive(server_).get()), 6u);
}

TEST_P(Calls, OptionsWithoutASizeAreRefused) {
  ripc_send_options options = send_options();
  options.size = 0;
  EXPECT_EQ(ripc_send(client_.get(), server_id(), nullptr, 0, &options, nullptr), RIPC_INVALID_ARGUMENT);
  ripc_service_statistics statistics{};
  EXPECT_EQ(ripc_service_get_statistics(client_.get(), &statistics), RIPC_INVALID_ARGUMENT);
}

TEST_P(Calls, ResultsAreOnlyWrittenAsFarAsTheCallersSize) {
  auto statistics = result_of_size<ripc_service_statistics>(offsetof(ripc_service_statistics, short_bytes_sent));
  ASSERT_EQ(ripc_service_get_statistics(client_.get(), &statistics), RIPC_OK);
  EXPECT_EQ(statistics.messages_sent, 0u);
  EXPECT_EQ(statistics.short_bytes_sent, 0xeeeeeeeeeeeeeeeeu);
  EXPECT_EQ(statistics.senders, 0xeeeeeeeeeeeeeeeeu);

  auto pool = result_of_size<ripc_pool_statistics>(offsetof(ripc_pool_statistics, leased));
  ASSERT_EQ(ripc_pool_get_statistics(client_context_.get(), &pool), RIPC_OK);
  EXPECT_EQ(pool.leased, 0xeeeeeeeeeeeeeeeeu);

  auto info = result_of_size<ripc_service_info>(offsetof(ripc_service_info, transport));
  ASSERT_EQ(ripc_resolve(client_context_.get(), server_id(), &info), RIPC_OK);
  EXPECT_EQ(info.id, server_id());
  EXPECT_EQ(static_cast<unsigned char>(info.transport[0]), 0xeeu);
}

// ---- Self-check --------------------------------------------------------------------------------------------------

TEST_P(Calls, TheSelfCheckTellsWhatItFound) {
  struct Findings {
    int count = 0;
    int broken = 0;
  } findings;
  const ripc_context_options options = context_options();
  ASSERT_EQ(ripc_diagnose(
                &options,
                [](void* user, const ripc_finding* finding) {
                  auto* self = static_cast<Findings*>(user);
                  ++self->count;
                  EXPECT_GE(finding->size, sizeof(ripc_finding));
                  EXPECT_LE(finding->level, 2u);
                  EXPECT_STRNE(finding->subject, "");
                  EXPECT_STRNE(finding->text, "");
                  if (finding->level > 0) {
                    EXPECT_STRNE(finding->advice, "") << finding->subject;
                  }
                  if (finding->level == 2) ++self->broken;
                },
                &findings),
            RIPC_OK);
  EXPECT_GE(findings.count, 1);
  EXPECT_EQ(findings.broken, 0) << "the tests of this machine pass, so nothing is broken";
}

}  // namespace
}  // namespace conformance
