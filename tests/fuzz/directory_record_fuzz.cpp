// SPDX-License-Identifier: Apache-2.0
// Fuzzes what the ZooKeeper resolver reads: records of nodes, names of nodes and the text of RIPC_ZOOKEEPER. An
// accepted record has the ID that was asked for, belongs to one session, and stays the same when it is written and read
// again. Also fuzzes the answers of servers to `ripc doctor`, which shows them on terminals.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/group_id.hpp"
#include "base/plain_text.hpp"
#include "core/service_id.hpp"
#include "require.hpp"
#include "resolver/zookeeper/ensemble_check.hpp"
#include "resolver/zookeeper/node_record.hpp"
#include "resolver/zookeeper/zookeeper_options.hpp"

namespace {

using fuzz::require;
using namespace ripc::internal::resolver;  // NOLINT: this program is about nothing else
using ripc::internal::Result;
using ripc::internal::spi::ServiceRecord;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  require(!ripc::internal::is_group(id_of_service(text)));
  require(!ripc::internal::is_group(id_of_member(text)));
  if (const ripc_service_id group = id_of_group(text); group != 0) require(group_path(group) == text);
  if (const Result<ZooKeeperOptions> options = parse_zookeeper_options(text); options.ok())
    require(!options->servers.empty() && options->servers.size() <= kMaxZooKeeperServers);
  ServerAnswer answer;
  read_answer(text, answer);
  for (const std::string& shown : {answer.mode, answer.version})
    require(ripc::internal::is_plain_text(shown) && text.find(shown) != std::string_view::npos);
  require(answer.version.find('-') == std::string::npos);
  ripc::internal::spi::PacketHeader header;
  static_cast<void>(ripc::internal::spi::decode_header(std::as_bytes(std::span(text.data(), text.size())), header));
  const std::uint64_t session = header.timestamp;
  for (const ripc_service_id id : {ripc_service_id{1}, ripc_service_id{4711}}) {
    ServiceRecord record;
    ripc::internal::spi::Refusals refusals;
    const auto decode = [&](std::string_view bytes, std::uint64_t owner, ServiceRecord& into) {
      return decode_record(bytes, id, owner, {}, ripc::internal::core::id_of_name, into, refusals);
    };
    if (decode(text, session, record) != RecordCheck::good) continue;
    require(session != 0 && decode(text, session + 1, record) == RecordCheck::replayed);
    require(record.id == id && record.context != 0 && record.incarnation != 0 && !record.addresses.empty());
    ServiceRecord again;
    require(decode(encode_record(record, session, {}), session, again) == RecordCheck::good);
    require(again.incarnation == record.incarnation && again.context == record.context && again.name == record.name &&
            again.addresses == record.addresses && again.groups == record.groups);
  }
  return 0;
}
