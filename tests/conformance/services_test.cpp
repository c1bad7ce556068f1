// SPDX-License-Identifier: Apache-2.0
// Services: IDs, registration, incarnations, restart. takeover_test.cpp tests who holds an ID.
#include <array>
#include <cstddef>
#include <cstring>
#include <set>

#include "puppet.hpp"
#include "registering.hpp"

namespace conformance {
namespace {

constexpr ripc_service_id kListedId = 4711;

int kind_of(ripc_service_id id) { return static_cast<int>(id >> 62); }

class Services : public TransportTest {
 protected:
  void SetUp() override { context_ = make_context(); }

  Context context_;
};
CONFORMANCE_SUITE(Services);

// ---- IDs ---------------------------------------------------------------------------------------------------------

TEST_P(Services, WithoutOptionsAServiceGetsARandomId) {
  std::set<ripc_service_id> ids;
  for (int round = 0; round < 64; ++round) {
    ripc_service* handle = nullptr;
    ASSERT_EQ(ripc_service_register(context_.get(), nullptr, &handle), RIPC_OK);
    const Service service(handle);
    EXPECT_EQ(kind_of(id_of(service)), 3) << "random IDs have the top bits 11";
    ids.insert(id_of(service));
  }
  EXPECT_EQ(ids.size(), 64u);
}

TEST_P(Services, WellKnownNumbersReachFromOneTo2To62Minus1) {
  EXPECT_EQ(RIPC_WELL_KNOWN_MAX, 0x3fffffffffffffffu);
  EXPECT_EQ(id_of(make_service(context_, 1)), 1u);
  EXPECT_EQ(id_of(make_service(context_, RIPC_WELL_KNOWN_MAX)), RIPC_WELL_KNOWN_MAX);
  EXPECT_EQ(try_register(context_, RIPC_WELL_KNOWN_MAX + 1), RIPC_INVALID_ARGUMENT);
}

TEST_P(Services, ANameHashesToAnIdOfItsOwnKind) {
  ripc_service_id id = 0;
  ripc_service_id again = 0;
  ripc_service_id other = 0;
  ASSERT_EQ(ripc_id_from_name("printer", &id), RIPC_OK);
  ASSERT_EQ(ripc_id_from_name("printer", &again), RIPC_OK);
  ASSERT_EQ(ripc_id_from_name("printes", &other), RIPC_OK);
  EXPECT_EQ(kind_of(id), 2) << "names have the top bits 10";
  EXPECT_EQ(id, again);
  EXPECT_NE(id, other);
  const Service service = make_service(context_, [](ripc_service_options& options) { options.name = "printer"; });
  EXPECT_EQ(id_of(service), id);
  EXPECT_STREQ(ripc_service_get_name(service.get()), "printer");
}

TEST_P(Services, ANameHas1To200BytesOfUtf8WithoutASlash) {
  ripc_service_id id = 0;
  const std::string longest(200, 'n');
  EXPECT_EQ(ripc_id_from_name("n", &id), RIPC_OK);
  EXPECT_EQ(ripc_id_from_name(longest.c_str(), &id), RIPC_OK);
  EXPECT_EQ(ripc_id_from_name("dr\xc3\xbc"
                              "cker \xe2\x82\xac \xf0\x9f\x96\xa8",
                              &id),
            RIPC_OK);
  const Service service =
      make_service(context_, [&](ripc_service_options& options) { options.name = longest.c_str(); });
  EXPECT_EQ(ripc_service_get_name(service.get()), longest);

  const std::string too_long(201, 'n');
  for (const char* name : {"", "a/b", "/", too_long.c_str(), "\xff", "\xc3", "\xed\xa0\x80", "\xc0\x80"}) {
    EXPECT_EQ(ripc_id_from_name(name, &id), RIPC_INVALID_ARGUMENT) << name;
    EXPECT_EQ(try_register(context_, [&](ripc_service_options& options) { options.name = name; }),
              RIPC_INVALID_ARGUMENT)
        << name;
  }
}

TEST_P(Services, AWellKnownNumberMayCarryAName) {
  const Service service = make_service(context_, [](ripc_service_options& options) {
    options.id = kListedId;
    options.name = "spooler";
  });
  EXPECT_EQ(id_of(service), kListedId);
  EXPECT_STREQ(ripc_service_get_name(service.get()), "spooler");
}

TEST_P(Services, AServiceKnowsItsContextAndThatItHasNoName) {
  const Service service = make_service(context_);
  EXPECT_EQ(ripc_service_get_context(service.get()), context_.get());
  EXPECT_STREQ(ripc_service_get_name(service.get()), "");
}

// ---- One living holder -------------------------------------------------------------------------------------------

TEST_P(Services, AnIdThatIsAliveIsRefusedToAnyOtherHolder) {
  const Context other = make_context();
  const Service service = make_service(context_, kListedId);
  EXPECT_EQ(try_register(context_, kListedId), RIPC_ID_IN_USE);
  EXPECT_EQ(try_register(other, kListedId), RIPC_ID_IN_USE);
  Puppet puppet(peer_setup());
  EXPECT_EQ(puppet.register_id(kListedId), "RIPC_ID_IN_USE");

  const Service sender = make_service(other);
  ASSERT_EQ(send_text(sender, kListedId, "still here"), RIPC_OK) << "the refused ones changed nothing";
  EXPECT_EQ(text_of(receive(service)), "still here");
}

TEST_P(Services, ANameThatIsAliveIsRefusedToAnyOtherHolder) {
  const Context other = make_context();
  const auto name = [](ripc_service_options& options) { options.name = "printer"; };
  const Service service = make_service(context_, name);
  EXPECT_EQ(try_register(other, name), RIPC_ID_IN_USE);
}

// Two names with the same hash, found by inverting the hash. The ID of a name is the same everywhere and forever. If
// these two differ, the hash was changed, and old and new programs do not find each other.
constexpr const char* kName = "jyzjvnol";
constexpr const char* kSameHash = "wxbnqkyn";

TEST_P(Services, TwoNamesThatCollideAreDetected) {
  ripc_service_id id = 0;
  ripc_service_id same = 0;
  ASSERT_EQ(ripc_id_from_name(kName, &id), RIPC_OK);
  ASSERT_EQ(ripc_id_from_name(kSameHash, &same), RIPC_OK);
  ASSERT_EQ(id, same);

  const Context other = make_context();
  Service service = make_service(context_, [](ripc_service_options& options) { options.name = kName; });
  for (const std::uint32_t takeover : {0u, 1u}) {
    EXPECT_EQ(try_register(other,
                           [takeover](ripc_service_options& options) {
                             options.name = kSameHash;
                             options.takeover = takeover;
                           }),
              RIPC_NAME_COLLISION);
  }
  ripc_service_info info = initialized(ripc_service_info_init);
  EXPECT_EQ(ripc_resolve_name(other.get(), kSameHash, &info), RIPC_NAME_COLLISION);
  EXPECT_EQ(ripc_resolve_name(other.get(), kName, &info), RIPC_OK);
  const Service sender = make_service(other);
  ASSERT_EQ(send_text(sender, id, "still here"), RIPC_OK);
  EXPECT_EQ(text_of(receive(service)), "still here");

  service.reset();
  EXPECT_EQ(try_register(other, [](ripc_service_options& options) { options.name = kSameHash; }), RIPC_OK)
      << "the other name is not there any more";
}

TEST_P(Services, ANumberThatIsAliveIsInUseWhateverTheNames) {
  const Context other = make_context();
  const Service service = make_service(context_, [](ripc_service_options& options) {
    options.id = kListedId;
    options.name = "spooler";
  });
  EXPECT_EQ(try_register(other, kListedId), RIPC_ID_IN_USE);
  EXPECT_EQ(try_register(other,
                         [](ripc_service_options& options) {
                           options.id = kListedId;
                           options.takeover = 1;
                         }),
            RIPC_OK)
      << "a number can be taken over without its name";
}

TEST_P(Services, WhenRegisterReturnsOtherProcessesFindTheService) {
  Puppet puppet(peer_setup());
  EXPECT_EQ(puppet.call("resolve 4711"), "RIPC_NO_SERVICE");
  const Service service = make_service(context_, kListedId);
  EXPECT_EQ(puppet.call("resolve 4711"), "RIPC_OK");
}

TEST_P(Services, UnregisterWithdrawsTheId) {
  const Context other = make_context();
  const Service sender = make_service(other);
  Service service = make_service(context_, kListedId);
  ASSERT_EQ(send_text(sender, kListedId, "hello"), RIPC_OK);
  service.reset();
  EXPECT_EQ(send_text(sender, kListedId, "hello"), RIPC_NO_SERVICE);
  EXPECT_EQ(try_register(other, kListedId), RIPC_OK);
}

TEST_P(Services, DestroyingTheContextEndsItsServices) {
  const Context other = make_context();
  (void)make_service(context_, kListedId).release();  // the context destroys it
  context_.reset();
  EXPECT_EQ(try_register(other, kListedId), RIPC_OK);
}

TEST_P(Services, EveryRegistrationHasALargerIncarnation) {
  const Context other = make_context();
  std::uint64_t last = 0;
  for (int round = 0; round < 8; ++round) {
    const Service service = make_service(round % 2 == 0 ? context_ : other, kListedId);
    const std::uint64_t incarnation = ripc_service_get_incarnation(service.get());
    EXPECT_GT(incarnation, last);
    last = incarnation;
  }
  Puppet puppet(peer_setup());
  const std::string answer = puppet.call("register 4711");
  ASSERT_EQ(answer.substr(0, 8), "RIPC_OK ");
  EXPECT_GT(std::stoull(answer.substr(8)), last);
}

TEST_P(Services, ManyServicesLiveInOneContext) {
  const Context other = make_context();
  const Service sender = make_service(other);
  std::vector<Service> services;
  for (ripc_service_id id = 1; id <= 100; ++id) services.push_back(make_service(context_, id));
  for (ripc_service_id id = 1; id <= 100; ++id) {
    ASSERT_EQ(send(sender, id, {}, static_cast<std::uint32_t>(id)), RIPC_OK) << ripc_last_error();
  }
  for (ripc_service_id id = 1; id <= 100; ++id) {
    EXPECT_EQ(ripc_message_get_tag(receive(services[id - 1]).get()), id);
  }
}

// ---- Takeover ----------------------------------------------------------------------------------------------------

TEST_P(Services, AServiceRegisteredElsewhereIsFoundByItsClients) {
  const Context client_context = make_context();
  const Service client = make_service(client_context);
  const Context other = make_context();
  for (int round = 0; round < 4; ++round) {
    const Service service = make_service(round % 2 == 0 ? context_ : other, kListedId);
    ASSERT_EQ(send_text(client, kListedId, "round " + std::to_string(round)), RIPC_OK) << ripc_last_error();
    EXPECT_EQ(text_of(receive(service)), "round " + std::to_string(round));
  }
}

TEST_P(Services, AfterSigkillAndRestartTheClientGoesOn) {
  const Service client = make_service(context_);
  for (int round = 0; round < 3; ++round) {
    Puppet puppet(peer_setup());
    ASSERT_EQ(puppet.register_id(kListedId), "RIPC_OK") << "what a dead process held is free, round " << round;
    ASSERT_EQ(send_text(client, kListedId, "hello"), RIPC_OK) << ripc_last_error();
    EXPECT_EQ(puppet.status_of("receive"), "RIPC_OK");
    EXPECT_EQ(puppet.call("reply and back"), "RIPC_OK");
    EXPECT_EQ(text_of(receive(client)), "and back");
    puppet.kill();
    EXPECT_TRUE(is_gone(client, kListedId));
  }
}

// ---- Limits ------------------------------------------------------------------------------------------------------

TEST_P(Services, QueueSizesOutsideTheirRangeAreRefused) {
  for (const std::uint32_t messages : {8u, 17u, 100u, 131072u, UINT32_MAX}) {
    EXPECT_EQ(try_register(context_, [&](ripc_service_options& options) { options.queue_messages = messages; }),
              RIPC_INVALID_ARGUMENT)
        << messages;
  }
  for (const std::uint32_t bytes : {2048u, 5000u, 128u << 20, UINT32_MAX}) {
    EXPECT_EQ(try_register(context_, [&](ripc_service_options& options) { options.queue_bytes = bytes; }),
              RIPC_INVALID_ARGUMENT)
        << bytes;
  }
  for (const std::uint32_t messages : {16u, 65536u}) {
    EXPECT_EQ(try_register(context_, [&](ripc_service_options& options) { options.queue_messages = messages; }),
              RIPC_OK);
  }
  for (const std::uint32_t bytes : {4096u, 64u << 20}) {
    EXPECT_EQ(try_register(context_, [&](ripc_service_options& options) { options.queue_bytes = bytes; }), RIPC_OK);
  }
}

TEST_P(Services, MaxSendersBoundsTheQueuesHeldAtOnce) {
  const Service service = make_service(context_, [](ripc_service_options& options) { options.max_senders = 2; });
  const Context second = make_context();
  const Context third = make_context();
  Context first = make_context();
  Service first_sender = make_service(first);
  const Service second_sender = make_service(second);
  const Service third_sender = make_service(third);
  ASSERT_EQ(send_text(first_sender, id_of(service), "1"), RIPC_OK);
  ASSERT_EQ(send_text(second_sender, id_of(service), "2"), RIPC_OK);
  EXPECT_EQ(send_text(third_sender, id_of(service), "3"), RIPC_REFUSED);
  EXPECT_EQ(statistics_of(service).senders, 2u);
  ASSERT_EQ(send_text(first_sender, id_of(service), "one sender, one queue"), RIPC_OK);

  first_sender.reset();
  first.reset();
  for (int count = 0; count < 3; ++count) receive(service);
  EXPECT_TRUE(eventually([&] {
    ripc_message* message = nullptr;
    ripc_receive(service.get(), 0, 0, &message);  // notices that the sender is gone
    return send_text(third_sender, id_of(service), "3") == RIPC_OK;
  }));
}

TEST_P(Services, MaxPeersBoundsTheConnectedProcesses) {
  const Context small = make_context([](ripc_context_options& options) { options.max_peers = 1; });
  const Service service = make_service(small);
  const Service sender = make_service(context_);
  ASSERT_EQ(send_text(sender, id_of(service), "1"), RIPC_OK);
  const Context other = make_context();
  const Service refused = make_service(other);
  EXPECT_EQ(send_text(refused, id_of(service), "2"), RIPC_REFUSED);
  ASSERT_EQ(send_text(sender, id_of(service), "3"), RIPC_OK);
}

TEST_P(Services, MaxPeersBoundsThePeersThatAContextConnectsTo) {
  const Context small = make_context([](ripc_context_options& options) { options.max_peers = 1; });
  const Service sender = make_service(small);
  const Service first = make_service(context_);
  const Context other = make_context();
  const Service second = make_service(other);
  ASSERT_EQ(send_text(sender, id_of(first), "1"), RIPC_OK);
  EXPECT_EQ(send_text(sender, id_of(second), "2"), RIPC_LIMIT) << ripc_last_error();
  ripc_service_info info;
  ripc_service_info_init(&info);
  EXPECT_EQ(ripc_find_path(small.get(), id_of(second), &info), RIPC_LIMIT) << ripc_last_error();
  const auto ignore = [](void*, const ripc_rail_info*) {};
  EXPECT_EQ(ripc_list_rails(small.get(), id_of(second), ignore, nullptr), RIPC_LIMIT) << ripc_last_error();
  ASSERT_EQ(send_text(sender, id_of(first), "3"), RIPC_OK) << "who is connected stays so";
}

// ---- The end of a service ----------------------------------------------------------------------------------------

TEST_P(Services, UnregisterEndsTheServicesTicketsWithClosed) {
  const Context other = make_context();
  const Service receiver = make_service(other);
  Service sender = make_service(context_);
  const Bytes data = pattern(10000, 1);
  const Ticket ticket = send_long(sender, id_of(receiver), {item(data, RIPC_ITEM_LONG)});
  EXPECT_EQ(ripc_ticket_poll(ticket.get()), RIPC_PENDING);
  sender.reset();
  EXPECT_EQ(ripc_ticket_poll(ticket.get()), RIPC_CLOSED);
}

TEST_P(Services, MessagesHeldStayValidAfterUnregister) {
  const Context other = make_context();
  const Service sender = make_service(other);
  Service receiver = make_service(context_);
  const Bytes data = pattern(5000, 2);
  ASSERT_EQ(send_text(sender, id_of(receiver), "kept"), RIPC_OK);
  const Ticket ticket = send_long(sender, id_of(receiver), {item(data, RIPC_ITEM_LONG)});
  const Message small = receive(receiver);
  const Message lent = receive(receiver, RIPC_RECEIVE_LEND);
  receiver.reset();
  EXPECT_EQ(text_of(small), "kept");
  EXPECT_EQ(ripc_message_get_source(small.get()), id_of(sender));
  EXPECT_TRUE(holds(view_of(lent, 0), RIPC_VIEW_LENT, data));
}

// ---- Many at once ------------------------------------------------------------------------------------------------

TEST_P(Services, ManyAreRegisteredAtOnceInTheOrderOfTheirOptions) {
  constexpr std::size_t kCount = 100;
  const Context context = make_context();
  std::vector<std::string> names;
  for (std::size_t index = 0; index < kCount; ++index) names.push_back("service " + std::to_string(index));
  std::vector<ripc_service_options> options(kCount);
  for (std::size_t index = 0; index < kCount; ++index) {
    ripc_service_options_init(&options[index]);
    options[index].name = names[index].c_str();
  }
  std::vector<ripc_service*> handles(kCount);
  ASSERT_EQ(ripc_service_register_many(context.get(), options.data(), kCount, handles.data()), RIPC_OK)
      << ripc_last_error();
  const Context other = make_context();
  for (std::size_t index = 0; index < kCount; ++index) {
    EXPECT_EQ(ripc_service_get_name(handles[index]), names[index]);
    ripc_service_info info = initialized(ripc_service_info_init);
    EXPECT_EQ(ripc_resolve_name(other.get(), names[index].c_str(), &info), RIPC_OK) << names[index];
  }
  for (ripc_service* handle : handles) ripc_service_unregister(handle);
  EXPECT_EQ(ripc_service_register_many(context.get(), nullptr, 0, handles.data()), RIPC_OK) << "none";
  EXPECT_EQ(ripc_service_register_many(context.get(), nullptr, 0, nullptr), RIPC_OK) << ripc_last_error();
}

TEST_P(Services, TheOptionsOfManyLieAsFarApartAsTheirCallerSays) {
  const Context context = make_context();
  struct Newer {
    ripc_service_options known;
    char unknown[24];
  };
  std::array<Newer, 3> newer;
  constexpr std::size_t kOlderSize = offsetof(ripc_service_options, takeover);
  alignas(ripc_service_options) std::array<unsigned char, 3 * kOlderSize> older;
  for (std::size_t index = 0; index < newer.size(); ++index) {
    ripc_service_options_init(&newer[index].known);
    newer[index].known.size = sizeof(Newer);
    newer[index].known.id = 600 + index;
    std::memset(newer[index].unknown, 0xee, sizeof newer[index].unknown);
    ripc_service_options part = newer[index].known;
    part.size = kOlderSize;
    part.id = 700 + index;
    std::memcpy(&older[index * kOlderSize], &part, kOlderSize);
  }
  std::array<ripc_service*, 3> handles{};
  const auto expect_ids = [&](const void* options, ripc_service_id first) {
    ASSERT_EQ(ripc_service_register_many(context.get(), static_cast<const ripc_service_options*>(options),
                                         handles.size(), handles.data()),
              RIPC_OK)
        << ripc_last_error();
    for (std::size_t index = 0; index < handles.size(); ++index) {
      EXPECT_EQ(ripc_service_get_id(handles[index]), first + index);
      ripc_service_unregister(handles[index]);
    }
  };
  expect_ids(newer.data(), 600);
  expect_ids(older.data(), 700);
}

TEST_P(Services, AllOfManyAreRegisteredOrNone) {
  const Context holder = make_context();
  const Service taken = make_service(holder, 502);
  const Context context = make_context();
  std::vector<ripc_service_options> options(4);
  for (std::size_t index = 0; index < options.size(); ++index) {
    ripc_service_options_init(&options[index]);
    options[index].id = 500 + index;
  }
  std::vector<ripc_service*> handles(options.size());
  EXPECT_EQ(ripc_service_register_many(context.get(), options.data(), options.size(), handles.data()), RIPC_ID_IN_USE);
  EXPECT_NE(std::string(ripc_last_error()).find("Service 2"), std::string::npos) << ripc_last_error();
  EXPECT_EQ(handles, std::vector<ripc_service*>(options.size(), nullptr));
  for (const ripc_service_id id : std::initializer_list<ripc_service_id>{500, 501, 503}) {
    ripc_service_info info = initialized(ripc_service_info_init);
    EXPECT_EQ(ripc_resolve(holder.get(), id, &info), RIPC_NO_SERVICE) << id;
  }
  options[1].queue_bytes = 5000;
  EXPECT_EQ(ripc_service_register_many(context.get(), options.data(), options.size(), handles.data()),
            RIPC_INVALID_ARGUMENT);
  EXPECT_NE(std::string(ripc_last_error()).find("Service 1"), std::string::npos) << ripc_last_error();
  options[3].size = sizeof(std::size_t) + 1;
  EXPECT_EQ(ripc_service_register_many(context.get(), options.data(), options.size(), handles.data()),
            RIPC_INVALID_ARGUMENT)
      << "all have the size of the first";
}

}  // namespace
}  // namespace conformance
