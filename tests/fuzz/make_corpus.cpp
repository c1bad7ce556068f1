// SPDX-License-Identifier: Apache-2.0
// Writes the seed files of the fuzzers with the real encoders:
//
//   make_corpus FOLDER        writes FOLDER/packet/* and so on, as main() names them
//
// Run it again when a wire format changes; the files it writes are kept in the tree.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>

#include "corpus_files.hpp"
#include "libripc/cli/file/file_protocol.hpp"
#include "resolver_corpus.hpp"
#include "session_corpus.hpp"
#include "wire/bulk.hpp"
#include "wire/call.hpp"
#include "wire/datagram.hpp"
#include "wire/packet.hpp"
#include "wire/shm_control.hpp"
#ifdef RIPC_WITH_VERBS
#include "transport/verbs/bulk/connection_private_data.hpp"
#endif

namespace {

namespace control = ripc::internal::wire::shm_control;
namespace datagram = ripc::internal::wire::datagram;
using namespace corpus;  // NOLINT(google-build-using-namespace): its other half

void write_packets(const std::filesystem::path& folder) {
  {
    Encoder encoder(PacketKind::message, 0, 1);
    write(folder / "empty_message", flatten(encoder));
  }
  write(folder / "short_two_items", short_message());
  {
    Encoder encoder(PacketKind::message, 7, kSource, ripc::internal::wire::kUnordered);
    encoder.add_payload(text("first"));
    write(folder / "unordered", flatten(encoder));
  }
  {
    Encoder encoder(PacketKind::message, 1, kSource);
    encoder.add_payload(text("take this"));
    encoder.add(ripc::internal::wire::Descriptor{.key = 1, .location = 4096, .length = 1 << 20});
    encoder.add(ripc::internal::wire::Descriptor{.key = 1, .location = 1 << 21, .length = 0});
    write(folder / "long_two_descriptors", flatten(encoder));
  }
  {
    Encoder encoder(PacketKind::message, 2, kSource);
    encoder.add_request(99);
    encoder.add(ripc::internal::wire::Grant{.key = 2, .location = 64, .length = 65536});
    encoder.add(ripc::internal::wire::Grant{.key = 3, .location = 0, .length = 1});
    encoder.add_payload(text("/etc/motd"));
    write(folder / "request_with_grants", flatten(encoder));
  }
  {
    Encoder encoder(PacketKind::message, 3, kSource);
    encoder.add_reply(99);
    encoder.add(ripc::internal::wire::Returned{.return_index = 0, .length = 4000});
    encoder.add(
        ripc::internal::wire::Directed{.return_index = 1, .descriptor = {.key = 4, .location = 128, .length = 2}});
    encoder.add_carried(2, text("carried"));
    encoder.add_payload(text("done"));
    write(folder / "reply_filled", flatten(encoder));
  }
  {
    Encoder encoder(PacketKind::message, 4, kSource);
    encoder.add_reply(1);
    encoder.add_request(2);
    encoder.add(ripc::internal::wire::Grant{.key = 5, .location = 6, .length = 7});
    write(folder / "reply_with_grants", flatten(encoder));
  }
  {
    Encoder encoder(PacketKind::notification, 0, kSource);
    encoder.add_handle(0x0123'4567'89ab'cdef);
    encoder.add_payload(text("argument"));
    write(folder / "notification", flatten(encoder));
  }
  {
    Encoder encoder(PacketKind::message, 5, kSource);
    for (std::size_t index = 0; index < RIPC_MAX_ITEMS; ++index) encoder.add_payload(text("x"));
    write(folder / "most_payload_items", flatten(encoder));
  }
  {
    Encoder encoder(PacketKind::message, 6, kSource);
    encoder.add_reply(1);
    encoder.add_request(2);
    for (std::uint64_t index = 0; index < RIPC_MAX_RETURNS; ++index)
      encoder.add(ripc::internal::wire::Grant{index, index, index});
    for (std::size_t index = 0; index < RIPC_MAX_ITEMS; ++index) encoder.add_payload({});
    write(folder / "most_items", flatten(encoder));
  }
  // Packets that are refused, so that the fuzzer begins near the edges.
  Bytes bytes = short_message();
  bytes.pop_back();
  write(folder / "refused_truncated", bytes);
  bytes = short_message();
  bytes[0] = std::byte{0xff};
  write(folder / "refused_version", bytes);
  bytes = short_message();
  bytes[3] = std::byte{0xff};
  write(folder / "refused_item_count", bytes);
  bytes = short_message();
  bytes[ripc::internal::wire::kHeaderSize + 3] = std::byte{0x0f};
  write(folder / "refused_long_length", bytes);
}

// Each file has a byte for the fuzzer, then the head of a datagram or record, a text and a tag.
void write_sealed(const std::filesystem::path& folder) {
  Bytes bytes(1 + 8 + 28 + 16, std::byte{0x5a});
  for (std::uint8_t choice = 0; choice < 4; ++choice) {
    bytes[0] = static_cast<std::byte>(choice);
    bytes[1] = std::byte{2};  // the version
    bytes[2] = static_cast<std::byte>(choice);
    write(folder / ("datagram_" + std::to_string(choice)), bytes);
    bytes[1] = std::byte{32};
    bytes[2] = bytes[3] = std::byte{0};
    bytes[4] = static_cast<std::byte>(choice == 3 ? 0x80 : 0);  // with the next key
    write(folder / ("record_" + std::to_string(choice)), bytes);
  }
}

void write_datagrams(const std::filesystem::path& folder) {
  const auto write_datagram = [&](const char* name, const datagram::Header& header, std::span<const std::byte> packet) {
    datagram::HeaderBytes head;
    datagram::encode(header, head);
    Bytes bytes(head.begin(), head.end());
    bytes.insert(bytes.end(), packet.begin(), packet.end());
    write(folder / name, bytes);
  };
  using Kind = datagram::Kind;
  const Bytes packet = short_message();
  write_datagram("data", {.kind = Kind::data, .sequence = 1, .token = 2, .spent = 13}, packet);
  write_datagram("data_with_credit",
                 {.kind = Kind::data, .sequence = 2, .token = 2, .spent = 26, .credit_link = 3, .credit = 4000},
                 packet);
  write_datagram("second_of_three", {.kind = Kind::data, .before = 1, .after = 1, .sequence = 3, .token = 2}, packet);
  write_datagram("refused_part_of_a_probe", {.kind = Kind::probe, .after = 1, .token = 2}, {});
  write_datagram("credit", {.kind = Kind::credit, .token = 2, .credit_link = 1, .credit = 5000}, {});
  write_datagram("probe", {.kind = Kind::probe, .token = 2, .spent = 26}, {});
  write_datagram("multicast", {.kind = Kind::multicast, .sequence = 1, .token = 11}, packet);
  write_datagram("multicast_greeting", {.kind = Kind::multicast, .token = 11}, {});
  write_datagram("greeting", {.kind = Kind::greeting, .token = 2}, {});
  write_datagram("greeting_answered", {.kind = Kind::greeting, .token = 2, .credit_link = 6}, {});
  write_datagram("refused_greeting_with_packet", {.kind = Kind::greeting, .token = 2}, packet);
  write_datagram("refused_empty_data", {.kind = Kind::data, .sequence = 1, .token = 2, .spent = 13}, {});
  write_datagram("refused_credit_for_nobody", {.kind = Kind::credit, .token = 2}, {});
}

template <typename T>
void write_message(const std::filesystem::path& file, const T& message) {
  Bytes bytes;
  if (control::encode(message, bytes) != RIPC_OK) failed = true;
  write(file, bytes);
}

void write_controls(const std::filesystem::path& folder) {
  write_message(folder / "hello", control::Hello{.context = 1, .pid = 100});
  write_message(folder / "hello_reply", control::HelloReply{.context = 2, .pid = 101});
  write_message(folder / "hello_refused", control::HelloReply{.status = RIPC_REFUSED});
  write_message(folder / "open", control::Open{.request = 1, .service = kSource, .link = 3});
  write_message(
      folder / "opened",
      control::Opened{
          .request = 1, .link = 3, .incarnation = 5, .cells = 128, .data_bytes = 8192, .state_slot = 9, .flags = 1});
  write_message(folder / "open_refused", control::Opened{.request = 1, .status = RIPC_NO_SERVICE, .link = 3});
  write_message(folder / "room", control::Room{.link = 3});
  write_message(folder / "transfer_done", control::TransferDone{.link = 3});
  write_message(folder / "close_link", control::CloseLink{.link = 3});
  write_message(folder / "link_closed", control::LinkClosed{.link = 3});
  write_message(folder / "arena", control::Arena{.id = 1, .flags = control::kArenaHugePages, .size = 64 << 20});
  write_message(folder / "arena_gone", control::ArenaGone{.id = 1});
  write_message(folder / "bounce_request",
                control::BounceRequest{.link = 3, .key = 4, .offset = 65536, .length = 65536, .sequence = 2});
  write_message(folder / "bounce_data",
                control::BounceData{.link = 3, .key = 4, .offset = 65536, .status = RIPC_REVOKED, .sequence = 2});
  const Bytes packet = short_message();
  write_message(folder / "control", control::Control{.link = 3, .destination = kSource, .packet = packet});
  write_message(folder / "fence", control::Fence{.request = 8, .service = kSource, .incarnation = 5});
  write_message(folder / "fenced", control::Fenced{.request = 8});
  write_message(folder / "bye", control::Bye{});

  Bytes bytes;
  control::encode(control::Arena{.id = 1, .size = 1}, bytes);
  bytes[12] = std::byte{2};
  write(folder / "refused_arena_flags", bytes);
  control::encode(control::Bye{}, bytes);
  bytes[1] = std::byte{17};
  write(folder / "refused_type", bytes);
  bytes[0] = std::byte{0xff};
  write(folder / "refused_version", bytes);
}

void write_bulk(const std::filesystem::path& folder) {
  namespace bulk = ripc::internal::wire::bulk;
  // A header followed by a trailer.
  const auto with_trailer = [](const bulk::Frame& frame, ripc_status status) {
    Bytes bytes(bulk::kHeaderSize);
    bulk::encode(frame, std::span<std::byte, bulk::kHeaderSize>(bytes.data(), bulk::kHeaderSize));
    for (const std::byte byte : bulk::encode_trailer(status)) bytes.push_back(byte);
    return bytes;
  };
  const bulk::Frame request{
      .type = bulk::Type::pull_request, .length = 1 << 20, .id = 7, .key = 1, .location = 2, .offset = 3 << 20};
  write(folder / "pull_request", with_trailer(request, RIPC_OK));
  write(folder / "data", with_trailer({.type = bulk::Type::data, .length = 4096, .id = 7, .offset = 3 << 20}, RIPC_OK));
  write(folder / "data_withdrawn", with_trailer({.type = bulk::Type::data, .id = 7}, RIPC_REVOKED));
  write(folder / "finish",
        with_trailer({.type = bulk::Type::finish, .key = 1, .location = 2, .value = RIPC_NO_WINDOW}, RIPC_OK));
  write(folder / "finished",
        with_trailer({.type = bulk::Type::finished, .key = 1, .location = 2, .value = RIPC_REVOKED}, RIPC_OK));
  const bulk::Frame push{
      .type = bulk::Type::push, .length = 100, .id = 9, .key = 4, .location = 5, .offset = 900, .value = 1000};
  write(folder / "push", with_trailer(push, RIPC_CANCELLED));
  write(folder / "pushed", with_trailer({.type = bulk::Type::pushed, .id = 9, .value = RIPC_OK}, RIPC_OK));
  write(folder / "ask_read", with_trailer({.type = bulk::Type::ask_read, .id = 11, .key = 1, .location = 2}, RIPC_OK));
  write(folder / "ask_write",
        with_trailer({.type = bulk::Type::ask_write, .id = 12, .key = 4, .location = 5, .value = 1000}, RIPC_OK));
  write(folder / "offer",
        with_trailer({.type = bulk::Type::offer, .id = 77, .key = 1, .location = 2, .value = 4096}, RIPC_OK));
  write(folder / "remote_key",
        with_trailer({.type = bulk::Type::remote_key, .id = 12, .key = 77, .location = 4096}, RIPC_OK));
  write(folder / "written",
        with_trailer({.type = bulk::Type::written, .id = 13, .key = 4, .location = 5, .value = 1000}, RIPC_OK));
  bulk::Frame refused = request;
  refused.offset = UINT64_MAX;
  write(folder / "refused_offset", with_trailer(refused, RIPC_OK));
  refused = push;
  refused.length = 101;
  write(folder / "refused_push_length", with_trailer(refused, RIPC_OK));
}

void write_call(const std::filesystem::path& folder) {
  namespace call = ripc::internal::wire::call;
  const auto write_header = [&](const char* name, const call::Header& header, std::size_t argument = 0) {
    Bytes bytes(call::kHeaderSize + argument);
    call::encode(header, bytes.data());
    write(folder / name, bytes);
  };
  write_header("open", {.kind = call::Kind::open, .number = 0x5eed, .code = 8});
  write_header("opened", {.kind = call::Kind::opened, .number = 0x5eed, .session = 7, .incarnation = 9, .code = 8});
  write_header("request", {.kind = call::Kind::request, .number = 8, .session = 7, .incarnation = 9, .time = 5000000});
  write_header("answer", {.kind = call::Kind::answer, .number = 8, .session = 7, .incarnation = 1, .code = 200});
  Bytes returned(call::kReturnedSize + 7);
  call::encode_returned({1, 7, text("carried")}, returned.data());
  write(folder / "refused_returned", returned);  // it is no header
  write_header("cancel", {.kind = call::Kind::cancel, .number = 8, .session = 7, .incarnation = 9});
  write_header("ask", {.kind = call::Kind::ask, .number = 8, .session = 7, .incarnation = 9});
  write_header(
      "state",
      {.kind = call::Kind::state, .state = call::State::not_run, .number = 8, .session = 7, .code = RIPC_UNSUPPORTED});
  write_header("request_with_argument", {.kind = call::Kind::request, .number = 8, .session = 7, .incarnation = 9}, 32);
  write_header("refused_ask_with_item", {.kind = call::Kind::ask, .number = 8, .session = 7, .incarnation = 9}, 1);
  write_header("refused_slots", {.kind = call::Kind::open, .number = 0x5eed, .code = 3});
}

#ifdef RIPC_WITH_VERBS
void write_private_data(const std::filesystem::path& folder) {
  ripc::internal::verbs::PrivateData private_data =
      ripc::internal::verbs::make_private_data(nullptr, ripc::internal::verbs::Side::dialing, {}, kSource, 3);
  write(folder / "without_key", private_data);
  std::fill(private_data.begin() + 24, private_data.end(), std::byte{0x5a});
  write(folder / "with_mac", private_data);
  private_data[0] = std::byte{1};
  write(folder / "refused_version", private_data);
}
#endif

void write_file_protocol(const std::filesystem::path& folder) {
  namespace file = cli::file;
  const file::RequestHeader request{
      .flags = file::RequestHeader::kWantDigest, .request = 1, .version = 2, .offset = 4096, .length = file::kMaxChunk};
  auto bytes = file::encode(request);
  write(folder / "request", bytes);
  bytes[0] = std::byte{2};
  write(folder / "refused_version", bytes);
  write(folder / "refused_short", std::span(bytes).first(39));
  const file::ReplyHeader reply{.flags = file::ReplyHeader::kHasDigest,
                                .request = 1,
                                .version = 2,
                                .size = 100'000,
                                .offset = 4096,
                                .length = 4096};
  write(folder / "reply", file::encode(reply));
  write(folder / "notification", file::encode(ripc_notification{kSource, 0x1234'5678'9abc'def0}));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  const auto folder = [&](const char* format) {
    const std::filesystem::path path = std::filesystem::path(argv[1]) / format;
    std::error_code error;
    std::filesystem::create_directories(path, error);
    return path;
  };
  write_packets(folder("packet"));
  write_controls(folder("shm_control"));
  write_sessions(folder("session_control"));
  write_proofs(folder("proof"));
  write_sealed(folder("sealed"));
  write_datagrams(folder("datagram"));
  write_multicast(folder("multicast"));
  write_directory_records(folder("directory_record"));
  write_record_rights(folder("record_rights"));
  write_bulk(folder("bulk"));
  write_call(folder("call"));
  write_file_protocol(folder("file_protocol"));
#ifdef RIPC_WITH_VERBS
  write_private_data(folder("connection_private_data"));
#endif
  return failed ? 1 : 0;
}
