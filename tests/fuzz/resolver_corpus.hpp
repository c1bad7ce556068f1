// SPDX-License-Identifier: Apache-2.0
// The part of make_corpus.cpp for the packets and records of resolvers.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "core/service_id.hpp"
#include "corpus_files.hpp"
#include "spi/service_packet.hpp"

namespace corpus {

inline void write_directory_records(const std::filesystem::path& folder) {
  using ripc::internal::spi::PacketBuilder;
  using ripc::internal::spi::PacketHeader;
  using ripc::internal::spi::PacketType;
  ripc::internal::spi::ServiceRecord record;
  record.id = 4711;
  record.incarnation = 1'700'000'000'000'000'000;
  record.addresses = {{"socket", "ctx=c;port=1;ip=10.0.0.1"}, {"shm", "#12"}};
  const PacketHeader header{.type = PacketType::announcement, .context = 12, .pid = 34, .timestamp = 56};
  PacketBuilder plain(header, {});
  plain.add(record, false);
  write(folder / "record", plain.finish());
  record.groups = {RIPC_GROUP_ID(7)};
  PacketBuilder member(header, {});
  member.add(record, false);
  Bytes bytes = member.finish();
  write(folder / "member", bytes);
  bytes.pop_back();
  write(folder / "refused_cut", bytes);
  const auto write_text = [&](const char* name, std::string_view text) {
    const auto span = std::as_bytes(std::span(text.data(), text.size()));
    write(folder / name, Bytes(span.begin(), span.end()));
  };
  write_text("servers", "zk1:2181,10.0.0.1,[::1]:99/ripc/test");
  write_text("path", "/s/7f/0000000000001267");
  write_text("group", "/g/4000000000000007");
  write_text("server",
             "Zookeeper version: 3.8.0-1, built on 2022-02-25 08:49 UTC\nZxid: 0x1\nMode: follower\nNode count: 5\n");
  write_text("server_without_quorum", "This ZooKeeper instance is not currently serving requests\n");
}

inline void write_multicast(const std::filesystem::path& folder) {
  using ripc::internal::spi::PacketBuilder;
  using ripc::internal::spi::PacketHeader;
  using ripc::internal::spi::PacketType;
  ripc::internal::spi::ServiceRecord record;
  record.id = 7;
  record.incarnation = 1'700'000'000'000'000'000;
  record.addresses = {{"socket", "ctx=c;port=1;ip=10.0.0.1"}, {"shm", "#12"}};
  ripc::internal::spi::ServiceRecord named = record;
  named.name = "files";
  named.id = ripc::internal::core::service_id_from_name(named.name);
  const PacketHeader question{.type = PacketType::question, .context = 12, .pid = 34, .timestamp = 56, .nonce = 78};

  write(folder / "question_all", PacketBuilder(question, {}).finish());
  PacketHeader header = question;
  header.is_probe = true;
  header.id = 7;
  header.number = record.incarnation;
  write(folder / "probe", PacketBuilder(header, {}).finish());
  header = question;
  header.id = 9;
  PacketBuilder introduces(header, {});
  introduces.add(record, false);
  introduces.add(named, false);
  write(folder / "question_with_services", introduces.finish());
  header.type = PacketType::reply;
  header.id = 7;
  PacketBuilder replies(header, {});
  replies.add(record, false);
  Bytes bytes = replies.finish(true);
  write(folder / "reply", bytes);
  bytes.pop_back();
  write(folder / "refused_cut", bytes);
  bytes[4] = std::byte{1};
  write(folder / "refused_version", bytes);
  ripc::internal::spi::ServiceRecord member = record;
  member.groups = {RIPC_GROUP_ID(7), ripc::internal::core::group_id_from_name("caches")};
  header.id = member.groups.front();
  PacketBuilder members(header, {});
  members.add(member, false);
  bytes = members.finish(true);
  write(folder / "reply_members", bytes);
  bytes.back() = std::byte{0xff};
  write(folder / "refused_group", bytes);
  header = {.type = PacketType::announcement, .context = 12, .pid = 34, .timestamp = 57};
  PacketBuilder announces(header, {});
  announces.add(named, false);
  announces.add(record, true);
  write(folder / "announcement_and_end", announces.finish());
  const auto keys = ripc::internal::ClusterKeys::parse(
      "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "the corpus");
  if (!keys.ok()) failed = true;
  PacketBuilder is_signed(header, ripc::internal::spi::Seal(keys.ok() ? keys->get() : nullptr));
  is_signed.add(named, false);
  write(folder / "signed", is_signed.finish());
}

// Signed by the member alice of record_rights_fuzz.cpp.
inline void write_record_rights(const std::filesystem::path& folder) {
  using ripc::internal::spi::PacketBuilder;
  using ripc::internal::spi::PacketType;
  const auto alice = ripc::internal::security::Identity::parse(
      "secret ed25519:0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20\n", "the corpus");
  if (!alice.ok()) failed = true;
  ripc::internal::spi::ServiceRecord record;
  record.id = (ripc_service_id{3} << 62) | 5;
  record.incarnation = 9;
  record.addresses = {{"socket", "ctx=c;port=1;ip=10.0.0.1"}};
  record.groups = {RIPC_GROUP_ID(7)};
  ripc::internal::spi::ServiceRecord given = record;
  given.name = "bank";
  given.id = ripc::internal::core::service_id_from_name("bank");
  ripc::internal::spi::ServiceRecord number = record;
  number.id = 4711;
  const ripc::internal::spi::Seal seal(nullptr, alice.ok() ? alice->get() : nullptr);
  PacketBuilder asks({.type = PacketType::question, .context = 12, .pid = 34, .timestamp = 56, .nonce = 78}, seal);
  write(folder / "sealed_question", asks.finish());
  PacketBuilder sealed({.type = PacketType::announcement, .context = 12, .pid = 34, .timestamp = 56}, seal);
  sealed.add(given, false);
  sealed.add(record, false);
  sealed.add(number, false);
  Bytes bytes = sealed.finish();
  write(folder / "sealed", bytes);
  bytes.back() ^= std::byte{1};
  write(folder / "wrong_signature", bytes);
}

}  // namespace corpus
