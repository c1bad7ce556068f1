// SPDX-License-Identifier: Apache-2.0
// Scale test between two hosts: one process on the other host has 1,000 services. The test finds all of them by
// multicast and talks to them over sockets. It prints what they cost, and checks that all answer and that nothing
// remains of their links.
#include <gtest/gtest.h>
#include <poll.h>

#include <cstdio>
#include <set>

#include "fault_support.hpp"
#include "hosts_fixture.hpp"

namespace fault {
namespace {

constexpr std::size_t kServices = 1000;
constexpr std::uint64_t kPatience = 60 * kSecond;

double seconds(std::uint64_t from, std::uint64_t to) { return static_cast<double>(to - from) / 1e9; }

// The role; arguments DIRECTORY. Sends every message back to its sender. Runs until it is killed.
int thousand(const std::vector<std::string>& arguments) {
  raise_descriptor_limit(65536);
  const Context context = make_far_context(arguments.at(0));
  std::vector<Service> services;
  std::vector<pollfd> descriptors;
  for (std::size_t number = 0; number < kServices; ++number) {
    // A random ID: no one else has it, so registering it does not ask the network first.
    services.push_back(make_service(context, 0));
    int fd = -1;
    if (!services.back() || ripc_service_get_fd(services.back().get(), &fd) != RIPC_OK) return 1;
    descriptors.push_back({fd, POLLIN, 0});
  }
  // A descriptor reports only what comes after a receive that found nothing, so each service starts as readable.
  for (pollfd& descriptor : descriptors) descriptor.revents = POLLIN;
  for (;;) {
    for (std::size_t number = 0; number < kServices; ++number) {
      const Service& service = services[number];
      if (descriptors[number].revents == 0) continue;
      while (const Message message = receive(service, 0)) {
        ripc_item_view view{};
        if (ripc_message_get_item(message.get(), 0, &view) != RIPC_OK) return 1;
        const ripc_item item{view.data, view.size, RIPC_ITEM_SHORT, 0};
        // A client that does not get the answer asks again.
        (void)ripc_reply(service.get(), message.get(), &item, 1, nullptr, nullptr);
      }
    }
    (void)poll(descriptors.data(), descriptors.size(), -1);
  }
}

class ManyServices : public HostTest {
 protected:
  std::set<ripc_service_id> listed(const Context& context) {
    std::set<ripc_service_id> found;
    const auto visit = [](void* user, const ripc_service_info* info) {
      if (info->pid != static_cast<std::uint32_t>(getpid()))
        static_cast<std::set<ripc_service_id>*>(user)->insert(info->id);
    };
    EXPECT_EQ(ripc_list_services(context.get(), visit, &found), RIPC_OK) << ripc_last_error();
    return found;
  }
  // Sends one message and waits for it to come back.
  bool talk(const Service& service, ripc_service_id to, std::uint64_t seed) {
    return eventually(
        [&] {
          if (send_short(service, to, seed) != RIPC_OK) return false;
          const Message answer = receive(service, kSecond);
          return answer && ripc_message_get_source(answer.get()) == to && flaw_of(answer.get()).empty();
        },
        kPatience);
  }
};

TEST_F(ManyServices, AThousandOnAnotherHostAreFoundAndAnswer) {
  raise_descriptor_limit(65536);
  const Context context = make_far_context(directory_here_.path());
  const Service service = make_service(context, 0);
  ASSERT_TRUE(service);
  const std::size_t descriptors = descriptor_count();
  const std::uint64_t began = now();
  process_ = hosts_.start_there("thousand", {directory_there_.path()});
  std::set<ripc_service_id> found;
  ASSERT_TRUE(eventually(
      [&] {
        found = listed(context);
        return found.size() >= kServices;
      },
      kPatience))
      << found.size() << " services are listed";
  const std::uint64_t all_listed = now();
  EXPECT_EQ(found.size(), kServices);
  // This context knows of no service so far.
  Context newcomer = make_far_context(directory_here_.path());
  const std::uint64_t asked = now();
  const std::uint64_t bytes = Hosts::transmitted() + Hosts::received();
  for (const ripc_service_id id : found) {
    ripc_service_info info{};
    info.size = sizeof info;
    ASSERT_EQ(ripc_resolve(newcomer.get(), id, &info), RIPC_OK) << ripc_last_error();
  }
  const std::uint64_t resolved = now();
  newcomer.reset();
  const std::uint64_t resolver_bytes = Hosts::transmitted() + Hosts::received() - bytes;
  std::uint64_t seed = 0;
  for (const ripc_service_id id : found) ASSERT_TRUE(talk(service, id, ++seed)) << ripc_last_error();
  const std::uint64_t talked = now();
  for (const ripc_service_id id : found) ASSERT_TRUE(talk(service, id, ++seed)) << ripc_last_error();
  const std::uint64_t again = now();
  std::printf(
      "1,000 services on another host: registered and listed in %.2f s; each resolved, cold, in %.2f s and %llu "
      "bytes; first message there and back, with both links, %.2f s; the next one %.2f s; %.2f descriptors here "
      "for a service\n",
      seconds(began, all_listed), seconds(asked, resolved), static_cast<unsigned long long>(resolver_bytes),
      seconds(resolved, talked), seconds(talked, again),
      static_cast<double>(descriptor_count() - descriptors) / kServices);
  process_.kill();
  EXPECT_TRUE(eventually([&] {
    (void)receive(service, 0);
    return descriptor_count() <= descriptors + 8;  // sockets that the resolver keeps for its next questions
  })) << descriptor_count()
      << " descriptors, " << descriptors << " before";
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) { return fault::run(argc, argv, {{"thousand", fault::thousand}}); }
