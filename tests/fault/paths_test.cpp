// SPDX-License-Identifier: Apache-2.0
// Tests which path leads to a service, and what replaces it: addresses that change, stay silent or die; paths of
// different transports; addresses from a file.
#include <gtest/gtest.h>

#include <fstream>

#include "fault_support.hpp"
#include "hosts_fixture.hpp"

namespace fault {
namespace {

constexpr const char* kOther = "10.78.0.4";  // a second address of the other host
// Frames to a wrong link-layer address are silently lost.
constexpr const char* kWrong = " lladdr 02:00:00:00:00:99 nud permanent dev cable";

ripc_service_info empty_info() {
  ripc_service_info info{};
  info.size = sizeof info;
  return info;
}

class Paths : public HostTest {
 protected:
  // The holder's address according to the context's resolver; "" if it has none.
  static std::string address_by(const Context& context) {
    ripc_service_info info = empty_info();
    return ripc_resolve(context.get(), kHolder, &info) == RIPC_OK ? info.address : "";
  }
  // The path to the holder, as ripc_find_path() reports it; "" if there is none.
  static std::string path_by(const Context& context) {
    const ripc_service_info info = path_to_holder(context);
    return info.transport[0] != '\0' ? std::string(info.transport) + ": " + info.reason : "";
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
  static std::string ip(const std::string& address) { return "ip=" + address + ";"; }
  void silence(const std::string& address) { hosts_.here("neighbour replace " + address + kWrong); }
};

TEST_F(Paths, AServiceWhoseHostChangesItsAddressIsPublishedAnewAndKeepsItsIncarnation) {
  ASSERT_NO_FATAL_FAILURE(start(kSecond));
  // This context has resolved the service but never sent to it.
  const Context listener = make_far_context(directory_here_.path());
  ripc_service_info before = empty_info();
  ASSERT_EQ(ripc_resolve(listener.get(), kHolder, &before), RIPC_OK) << ripc_last_error();
  ASSERT_TRUE(has(before.address, ip(Hosts::kThere))) << before.address;
  // This context asks the local resolver of the other host.
  const Context neighbour = make_far_context(directory_there_.path());
  hosts_.there(std::string("address delete ") + Hosts::kThere + "/24 dev cable");
  hosts_.there(std::string("address add ") + kOther + "/24 dev cable");
  for (const Context* context : {&listener, &neighbour}) {
    EXPECT_TRUE(eventually([&] {
      const std::string address = address_by(*context);
      return has(address, ip(kOther)) && !has(address, ip(Hosts::kThere));
    })) << address_by(*context);
  }
  const ripc_service_info after = path_to_holder(listener);
  EXPECT_EQ(after.incarnation, before.incarnation);
  EXPECT_TRUE(has(after.reason, kOther)) << after.reason;
  // A sender that had a path to the former address finds the new one by itself.
  EXPECT_TRUE(asker_->ask()) << ripc_last_error();
  ASSERT_NO_FATAL_FAILURE(exchange_long(200));
}

TEST_F(Paths, AServiceOnAnInterfaceThatGoesDownIsPublishedWithoutItsAddressesAndThenWithThemAgain) {
  ASSERT_NO_FATAL_FAILURE(start(kSecond));
  const Context neighbour = make_far_context(directory_there_.path());
  hosts_.there("link set cable down");
  EXPECT_TRUE(eventually([&] {
    const std::string address = address_by(neighbour);
    return !address.empty() && !has(address, ip(Hosts::kThere));
  })) << address_by(neighbour);
  hosts_.there("link set cable up");
  EXPECT_TRUE(eventually([&] { return has(address_by(neighbour), ip(Hosts::kThere)); })) << address_by(neighbour);
  const Context newcomer = make_far_context(directory_here_.path());
  EXPECT_TRUE(eventually([&] { return has(address_by(newcomer), ip(Hosts::kThere)); })) << address_by(newcomer);
  EXPECT_TRUE(asker_->ask()) << ripc_last_error();
}

TEST_F(Paths, AnAddressThatIsSilentDoesNotHoldUpTheNextOne) {
  hosts_.there(std::string("address add ") + kOther + "/24 dev cable");
  silence(Hosts::kThere);
  ASSERT_NO_FATAL_FAILURE(start(4 * kSecond));
  const Context newcomer = make_far_context(directory_here_.path());
  // This must succeed within the time for resolving, a quarter of the time after which a silent address is given up.
  const std::string path = path_by(newcomer);
  EXPECT_TRUE(has(path, kOther)) << path << ripc_last_error();
}

TEST_F(Paths, AnAddressThatDiesIsReplacedByAnotherOneOfTheSameProcess) {
  hosts_.there(std::string("address add ") + kOther + "/24 dev cable");
  ASSERT_NO_FATAL_FAILURE(start(kSecond));
  ASSERT_TRUE(has(path_by(asker_->context()), Hosts::kThere)) << path_by(asker_->context());
  const std::optional<Told> before = asker_->ask();
  ASSERT_TRUE(before);
  Ticket ticket;
  ASSERT_EQ(asker_->send_long(kLong, 1, ticket), RIPC_OK);
  silence(Hosts::kThere);
  const ripc_status status = ripc_ticket_wait(ticket.get(), kLimit);
  EXPECT_TRUE(status == RIPC_PEER_DEAD || status == RIPC_OK) << ripc_status_name(status);
  const std::optional<Told> after = asker_->ask();
  ASSERT_TRUE(after) << ripc_last_error();
  EXPECT_EQ(after->whole, before->whole + (status == RIPC_OK ? 1 : 0)) << "the ticket did not tell the truth";
  EXPECT_TRUE(has(path_by(asker_->context()), kOther)) << path_by(asker_->context());
  // The holder may find out later that the old path is dead. Until then its only window belongs to that message.
  EXPECT_TRUE(eventually([&] {
    Ticket again;
    EXPECT_EQ(asker_->send_long(kLong, 199, again), RIPC_OK) << ripc_last_error();
    return ripc_ticket_wait(again.get(), kLimit) != RIPC_NO_WINDOW;
  }));
  ASSERT_NO_FATAL_FAILURE(exchange_long(200));
}

TEST_F(Paths, AServiceThatMovesToAnotherHostIsFollowedFromSharedMemoryToSockets) {
  ASSERT_EQ(setenv("RIPC_PEER_TIMEOUT_MS", "1000", 1), 0);
  process_ = Process("holder", {directory_here_.path(), "shm,socket"});
  Asker asker(directory_here_.path(), "shm,socket");
  ASSERT_TRUE(asker.ask()) << ripc_last_error();
  EXPECT_TRUE(has(path_by(asker.context()), "shm: ")) << path_by(asker.context());
  process_.kill();
  process_ = hosts_.start_there("holder", {directory_there_.path(), "shm,socket"});
  ASSERT_TRUE(asker.ask()) << ripc_last_error();
  EXPECT_TRUE(has(path_by(asker.context()), "socket: ")) << path_by(asker.context());
  process_.kill();
  process_ = Process("holder", {directory_here_.path(), "shm,socket"});
  ASSERT_TRUE(asker.ask()) << ripc_last_error();
  EXPECT_TRUE(has(path_by(asker.context()), "shm: ")) << path_by(asker.context());
}

// The asker knows only the names in this test's file.
TEST_F(Paths, AServiceInAFileIsReachedWithoutAnyOtherResolver) {
  const std::string file = directory_here_.path() + "/known";
  // Nobody is at the first address, and the second is silent.
  std::ofstream(file) << kHolder << " socket:" << Hosts::kHere << ":9  socket:" << Hosts::kThere
                      << ":27500  socket:" << kOther << ":27500\n";
  hosts_.there(std::string("address add ") + kOther + "/24 dev cable");
  silence(Hosts::kThere);
  ASSERT_EQ(setenv("RIPC_MULTICAST", "off", 1), 0);
  ASSERT_EQ(setenv("RIPC_SOCKET_PORTS", "27500-27599", 1), 0);
  start_holder();
  ASSERT_EQ(unsetenv("RIPC_SOCKET_PORTS"), 0);
  ASSERT_EQ(setenv("RIPC_RESOLVER_FILE", file.c_str(), 1), 0);
  Asker asker(directory_here_.path());
  EXPECT_TRUE(asker.ask()) << ripc_last_error();
  const ripc_service_info info = path_to_holder(asker.context());
  EXPECT_EQ(info.address, std::string("socket:") + kOther + ":27500");
  EXPECT_TRUE(has(info.reason, "found by the static resolver")) << info.reason;
  EXPECT_EQ(asker.request_long(kLong, 7), RIPC_OK);
  EXPECT_EQ(asker.receive_long(kLimit), RIPC_OK);
  EXPECT_EQ(unsetenv("RIPC_RESOLVER_FILE"), 0);
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) { return fault::run(argc, argv, {{"holder", fault::holder}}); }
