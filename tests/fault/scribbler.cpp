// SPDX-License-Identifier: Apache-2.0
#include "scribbler.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "hostile.hpp"
#include "transport/shm/location.hpp"
#include "wire/packet.hpp"

namespace fault {
namespace {

std::uint64_t odd_number(Random& random) {
  switch (random.below(7)) {
    case 0:
      return 0;
    case 1:
      return random.below(200);
    case 2:
      return UINT64_MAX - random.below(4);
    case 3:
      return std::uint64_t{1} << random.below(64);
    case 4:
      return ripc::internal::shm::pooled_location(static_cast<std::uint32_t>(random.below(4)), random.below(1 << 20));
    case 5:
      return reinterpret_cast<std::uint64_t>(&random);
    default:
      return random.next();
  }
}

ripc::internal::wire::Descriptor odd_descriptor(Random& random) {
  const std::uint64_t key = random.below(3) << 32 | random.below(140) << 16 | random.below(3);
  return {.key = random.below(4) == 0 ? random.next() : key,
          .location = odd_number(random),
          .length = random.below(2) == 0 ? random.below(5000) : odd_number(random)};
}

// A packet that may be right, half right or nothing at all.
std::vector<std::byte> odd_packet(Random& random) {
  ripc::internal::wire::Encoder encoder(
      random.below(8) == 0 ? ripc::internal::wire::PacketKind::notification : ripc::internal::wire::PacketKind::message,
      static_cast<std::uint32_t>(random.next()), random.below(3) == 0 ? odd_number(random) : kLiar);
  const std::vector<std::byte> payload = make_item(24 + random.below(60), random.next());
  for (std::uint64_t count = random.below(5); count > 0; --count) {
    switch (random.below(8)) {
      case 0:
      case 1:
        encoder.add_payload(payload);
        break;
      case 2:
      case 3:
        encoder.add(odd_descriptor(random));
        break;
      case 4:
        encoder.add(ripc::internal::wire::Grant{odd_number(random), odd_number(random), odd_number(random)});
        encoder.add_request(odd_number(random));
        break;
      case 5:
        encoder.add(ripc::internal::wire::Returned{static_cast<std::uint32_t>(odd_number(random)), odd_number(random)});
        break;
      case 6:
        encoder.add(
            ripc::internal::wire::Directed{static_cast<std::uint32_t>(random.below(20)), odd_descriptor(random)});
        break;
      default:
        encoder.add_reply(random.below(2) == 0 ? random.below(50) : odd_number(random));
    }
  }
  std::vector<std::byte> packet;
  for (const auto& range : encoder.finish()) packet.insert(packet.end(), range.begin(), range.end());
  for (std::uint64_t count = random.below(4); count > 0 && random.below(2) == 0; --count)
    packet[random.below(packet.size())] = static_cast<std::byte>(random.next());
  return packet;
}

void put_odd_cell(HostileLink& link, Random& random) {
  // Mostly writes where the receiver looks next.
  const std::uint32_t consumed = link.page().receiver.head_cells.load();
  if (link.next - consumed >= link.geometry.cells) link.next = consumed;
  ripc::internal::shm::Cell& cell = link.cell(link.next);
  std::vector<std::byte> packet = odd_packet(random);
  std::uint32_t length = static_cast<std::uint32_t>(packet.size());
  if (packet.size() > ripc::internal::shm::kInlineCapacity) {
    std::uint32_t offset = static_cast<std::uint32_t>(random.below(link.geometry.data_bytes / 128)) * 64;
    std::memcpy(link.memory.data() + link.geometry.data_offset() + offset, packet.data(),
                std::min<std::size_t>(packet.size(), link.geometry.data_bytes - offset));
    if (random.below(200) == 0) offset = static_cast<std::uint32_t>(odd_number(random));
    if (random.below(200) == 0) length = static_cast<std::uint32_t>(odd_number(random));
    cell.outside.data_offset = offset;
    cell.outside.data_end = static_cast<std::uint32_t>(odd_number(random));
  } else {
    std::memcpy(cell.bytes, packet.data(), packet.size());
    if (random.below(50) == 0) length = static_cast<std::uint32_t>(random.below(121));
  }
  cell.length.store(length);
  cell.sequence.store(random.below(20) == 0 ? static_cast<std::uint32_t>(random.next()) : link.next + 1);
  if (cell.sequence.load() == link.next + 1) ++link.next;
}

std::vector<std::byte> odd_datagram(Random& random) {
  std::vector<std::byte> bytes;
  const std::uint64_t link = random.below(4);
  switch (random.below(12)) {
    case 0:
      control::encode(control::Room{link}, bytes);
      break;
    case 1:
      control::encode(control::TransferDone{link}, bytes);
      break;
    case 2:
      control::encode(control::LinkClosed{link}, bytes);
      break;
    case 3:
      control::encode(control::ArenaGone{static_cast<std::uint32_t>(random.below(4))}, bytes);
      break;
    case 4:
      control::encode(control::BounceRequest{link, odd_number(random), odd_number(random), 1 + random.below(9), 0, 0},
                      bytes);
      break;
    case 5:
      control::encode(control::BounceData{link, odd_number(random), odd_number(random), RIPC_OK,
                                          static_cast<std::uint32_t>(random.below(9)), odd_number(random)},
                      bytes);
      break;
    case 6: {
      const std::vector<std::byte> packet = odd_packet(random);
      control::encode(control::Control{link, random.below(2) == 0 ? kService : odd_number(random), packet}, bytes);
      break;
    }
    case 7:
      control::encode(control::Fence{odd_number(random), random.below(2) == 0 ? kService : kOther, UINT64_MAX}, bytes);
      break;
    case 8:
      control::encode(control::Fenced{odd_number(random), RIPC_OK}, bytes);
      break;
    case 9:
      control::encode(control::Opened{odd_number(random), RIPC_OK, link, 0, 16, 4096, 0, 0}, bytes);
      break;
    case 10:
      if (random.below(10) == 0) control::encode(control::CloseLink{link}, bytes);
      break;
    default:
      // Rarely, because it ends the connection.
      if (random.below(20) == 0) {
        bytes.resize(1 + random.below(100));
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
        if (random.below(2) == 0) bytes.front() = std::byte{control::kProtocolVersion};
      }
  }
  return bytes;
}

}  // namespace

int scribbler(const std::vector<std::string>& arguments) {
  Random random(std::stoull(arguments.at(2)));
  for (std::uint64_t round = std::stoull(arguments.at(3)); round > 0; --round) {
    Hostile hostile(arguments.at(0), std::stoull(arguments.at(1)));
    if (!hostile.connected() || !hostile.greet()) return 1;
    const ripc::internal::UniqueFd arena = make_memfd(1 << 20, true);
    const std::array<int, 1> descriptor{arena.get()};
    hostile.send(control::Arena{.id = 1, .flags = 0, .size = 1 << 20}, descriptor);
    std::vector<HostileLink> links;
    for (std::uint64_t number = 1; number <= 3; ++number) {
      if (auto link = hostile.open(kService, number)) links.push_back(std::move(*link));
    }
    if (links.empty()) continue;
    for (int step = 0; step < 2000 && !hostile.closed(); ++step) {
      HostileLink& link = links[random.below(links.size())];
      switch (random.below(10)) {
        case 0: {
          const std::uint64_t key = (random.below(3) << 32) | random.below(7);
          link.page().transfers[random.below(ripc::internal::shm::kTransferSlots)].store(
              random.below(3) == 0 ? random.next() : key);
          break;
        }
        case 1:
          link.page().grants[random.below(ripc::internal::shm::kGrantSlots)].store(odd_number(random));
          break;
        case 2:
          link.page().sender.room_wanted.store(1);
          link.page().sender.transfers_watched.store(1);
          for (auto& bits : link.page().sender.watched) bits.store(odd_number(random));
          break;
        case 3:
          if (random.below(20) == 0) {
            link.page().receiver.head_cells.store(static_cast<std::uint32_t>(odd_number(random)));
            link.page().receiver.head_data.store(static_cast<std::uint32_t>(odd_number(random)));
          }
          break;
        case 4: {
          const std::vector<std::byte> bytes = odd_datagram(random);
          if (!bytes.empty()) hostile.send_raw(bytes);
          break;
        }
        case 5:
          link.ring();
          break;
        default:
          put_odd_cell(link, random);
      }
    }
  }
  return 0;
}

}  // namespace fault
