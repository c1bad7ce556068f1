// SPDX-License-Identifier: Apache-2.0
#include "resolver/local/service_record.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "base/plain_text.hpp"
#include "base/runtime_directory.hpp"
#include "resolver/local/json_value.hpp"
#include "spi/holder_rules.hpp"

namespace ripc::internal::resolver {
namespace {

constexpr unsigned kFormat = 1;
constexpr unsigned kFormatWithGroups = 2;
constexpr std::size_t kMaxDepth = 8;  // a record needs 4

std::string to_hex(std::uint64_t number) { return RuntimeDirectory::file_name(number).data(); }

std::uint64_t fnv1a(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::optional<std::uint64_t> hex_member(const JsonValue& object, std::string_view name) noexcept {
  const std::string* text = object.string_member(name);
  return text == nullptr ? std::nullopt : RuntimeDirectory::number_of(*text);
}

JsonValue parse(std::string_view text) {
  return text.size() > kMaxRecordSize ? JsonValue() : JsonValue::parse(text, kMaxDepth);
}

// What is wrong with the record; nullptr: nothing. The parser and the writer check UTF-8.
const char* find_fault(const spi::ServiceRecord& record) noexcept {
  if (record.id == 0) return "its ID is 0";
  if (is_group(record.id)) return "its ID is that of a group";
  if (!is_group_list(record.groups)) return "it is in more than 64 groups, or in something that is not a group";
  if (record.name.size() > spi::kMaxNameSize) return "its name is longer than 200 bytes";
  if (!is_plain_text(record.name) || record.name.find('/') != std::string::npos)
    return "its name is not UTF-8, or has a '/' or a control character";
  if (record.addresses.size() > spi::kMaxAddresses) return "it has more than 64 addresses";
  for (const spi::Address& address : record.addresses) {
    if (address.transport.empty() || address.transport.size() > spi::kMaxTransportSize)
      return "the transport of an address has not 1 to 15 bytes";
    if (address.locator.empty() || address.locator.size() > spi::kMaxLocatorSize)
      return "the locator of an address has not 1 to 4096 bytes";
    if (address.transport.find('\0') != std::string::npos || address.locator.find('\0') != std::string::npos)
      return "an address has a zero byte";
    if (!spi::is_for_records(address)) return "a shared-memory address names a directory";
  }
  return nullptr;
}

// The members are sorted by name, so that the text of a record is the same every time.
std::string body_of(const spi::ServiceRecord& record) {
  std::string body = "{\"addresses\":[";
  for (const spi::Address& address : record.addresses) {
    body += &address == record.addresses.data() ? "{\"locator\":" : ",{\"locator\":";
    append_json_string(address.locator, body);
    body += ",\"transport\":";
    append_json_string(address.transport, body);
    body += '}';
  }
  body += "],\"context\":\"" + to_hex(record.context) + '"';
  for (std::size_t index = 0; index < record.groups.size(); ++index)
    body += (index == 0 ? ",\"groups\":[\"" : ",\"") + to_hex(record.groups[index]) + '"';
  if (!record.groups.empty()) body += ']';
  body += ",\"id\":\"" + to_hex(record.id) + "\",\"incarnation\":" + std::to_string(record.incarnation) + ",\"name\":";
  append_json_string(record.name, body);
  body += ",\"pid\":" + std::to_string(record.pid) + '}';
  return body;
}

Status corrupt(const char* what) {
  return Status(RIPC_CORRUPT, std::string("This is not a service record: ") + what +
                                  ". Remove it, or let the service be registered again.");
}

Result<spi::ServiceRecord> from_json(const JsonValue& body, ripc_service_id id) {
  if (body.kind() != JsonValue::Kind::object) return corrupt("it is not a JSON object");
  const std::optional<std::uint64_t> written_id = hex_member(body, "id");
  if (!written_id) return corrupt("it has no ID");
  if (*written_id != id) return corrupt("it is that of another ID");
  const std::string* name = body.string_member("name");
  const std::optional<std::uint64_t> incarnation = body.number_member("incarnation");
  const std::optional<std::uint64_t> context = hex_member(body, "context");
  const std::optional<std::uint64_t> pid = body.number_member("pid");
  const JsonValue* addresses = body.member("addresses");
  if (name == nullptr || !incarnation || !context || !pid || *pid > std::numeric_limits<std::uint32_t>::max() ||
      addresses == nullptr || addresses->kind() != JsonValue::Kind::array ||
      addresses->elements().size() > spi::kMaxAddresses)
    return corrupt("a member is missing or of the wrong type");

  spi::ServiceRecord record;
  record.id = id;
  record.name = *name;
  record.incarnation = *incarnation;
  record.context = *context;
  record.pid = static_cast<std::uint32_t>(*pid);
  for (const JsonValue& address : addresses->elements()) {
    if (address.kind() != JsonValue::Kind::object) return corrupt("an address is not a JSON object");
    const std::string* transport = address.string_member("transport");
    const std::string* locator = address.string_member("locator");
    if (transport == nullptr || locator == nullptr) return corrupt("an address lacks transport or locator");
    record.addresses.push_back({*transport, *locator});
  }
  if (const JsonValue* groups = body.member("groups")) {
    if (groups->kind() != JsonValue::Kind::array || groups->elements().size() > kMaxGroups)
      return corrupt("its groups are not a list of up to 64");
    for (const JsonValue& group : groups->elements()) {
      const std::string* text = group.string();
      const std::optional<std::uint64_t> number = text == nullptr ? std::nullopt : RuntimeDirectory::number_of(*text);
      if (!number) return corrupt("a group is not an ID");
      record.groups.push_back(*number);
    }
  }
  if (const char* fault = find_fault(record)) return corrupt(fault);
  return record;
}

}  // namespace

Result<std::string> encode_service_record(const spi::ServiceRecord& record) {
  if (const char* fault = find_fault(record))
    return Status(RIPC_INVALID_ARGUMENT, std::string("The service cannot be published: ") + fault + ".");
  const std::string text = body_of(record);
  const unsigned format = record.groups.empty() ? kFormat : kFormatWithGroups;
  std::string whole =
      "{\"format\":" + std::to_string(format) + ",\"check\":\"" + to_hex(fnv1a(text)) + "\",\"record\":" + text + "}\n";
  if (whole.size() > kMaxRecordSize)
    return Status(RIPC_LIMIT, "The service cannot be published: its record would have " + std::to_string(whole.size()) +
                                  " bytes, more than 65536. Give it fewer or shorter addresses.");
  if (parse(text).kind() == JsonValue::Kind::none)
    return Status(RIPC_INVALID_ARGUMENT, "The service cannot be published: its name or an address is not UTF-8.");
  return whole;
}

Result<spi::ServiceRecord> decode_service_record(std::string_view text, ripc_service_id id) {
  if (text.size() > kMaxRecordSize) return corrupt("it is larger than 64 KiB");
  const JsonValue whole = parse(text);
  if (whole.kind() != JsonValue::Kind::object) return corrupt("it is not a JSON object");
  const std::optional<std::uint64_t> format = whole.number_member("format");
  if (!format) return corrupt("it has no format number");
  if (*format != kFormat && *format != kFormatWithGroups)
    return Status(RIPC_VERSION_MISMATCH,
                  "The service record has format " + std::to_string(*format) +
                      "; this libripc knows formats 1 and 2. Use one version of libripc on this host.");
  const std::optional<std::uint64_t> check = hex_member(whole, "check");
  const JsonValue* body = whole.member("record");
  if (!check || body == nullptr || body->kind() != JsonValue::Kind::object)
    return corrupt("a member is missing or of the wrong type");
  Result<spi::ServiceRecord> record = from_json(*body, id);
  if (record.ok() && record->groups.empty() != (*format == kFormat)) return corrupt("it has groups, or lacks them");
  // The hash is of the text as it would be written now, so anything else in a hostile text is ignored.
  if (record.ok() && fnv1a(body_of(*record)) != *check)
    return corrupt("its check sum is wrong, so it is torn or was edited");
  return record;
}

}  // namespace ripc::internal::resolver
