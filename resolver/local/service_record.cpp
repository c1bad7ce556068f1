// SPDX-License-Identifier: Apache-2.0
#include "resolver/local/service_record.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace ripc::resolver {
namespace {

using Json = nlohmann::json;  // writes members sorted by name: the text of a record is the same every time

constexpr unsigned kFormat = 1;
constexpr unsigned kFormatWithGroups = 2;
constexpr int kMaxDepth = 8;  // a record needs 4

std::string to_hex(std::uint64_t number) {
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; number >>= 4) text[i] = "0123456789abcdef"[number & 15];
  return text;
}

std::optional<std::uint64_t> from_hex(std::string_view text) noexcept {
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return number;
}

std::uint64_t fnv1a(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// ---- Reading: no exceptions, nothing taken for granted ---------------------------------------------------------

const Json* member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

const std::string* string_member(const Json& object, const char* key) {
  const Json* value = member(object, key);
  return value == nullptr ? nullptr : value->get_ptr<const std::string*>();
}

std::optional<std::uint64_t> number_member(const Json& object, const char* key) {
  const Json* value = member(object, key);
  if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
  return *value->get_ptr<const Json::number_unsigned_t*>();
}

std::optional<std::uint64_t> hex_member(const Json& object, const char* key) {
  const std::string* text = string_member(object, key);
  return text == nullptr ? std::nullopt : from_hex(*text);
}

// Parsers, or what is done with their values, may use a hostile text's depth as that of the stack.
bool is_too_deep(std::string_view text) noexcept {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

Json parse(std::string_view text) {
  if (text.size() > kMaxRecordSize || is_too_deep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

// What is wrong with the record; nullptr: nothing. UTF-8 is the parser's and the writer's business.
const char* find_fault(const spi::ServiceRecord& record) noexcept {
  if (record.id == 0) return "its ID is 0";
  if (is_group(record.id)) return "its ID is that of a group";
  if (!is_group_list(record.groups)) return "it is in more than 64 groups, or in something that is not a group";
  if (record.name.size() > kMaxNameSize) return "its name is longer than 200 bytes";
  if (record.name.find('\0') != std::string::npos || record.name.find('/') != std::string::npos)
    return "its name has a '/' or a zero byte";
  if (record.addresses.size() > kMaxAddresses) return "it has more than 64 addresses";
  for (const spi::Address& address : record.addresses) {
    if (address.transport.empty() || address.transport.size() > kMaxTransportSize)
      return "the transport of an address has not 1 to 15 bytes";
    if (address.locator.empty() || address.locator.size() > kMaxLocatorSize)
      return "the locator of an address has not 1 to 4096 bytes";
    if (address.transport.find('\0') != std::string::npos || address.locator.find('\0') != std::string::npos)
      return "an address has a zero byte";
  }
  return nullptr;
}

Json to_json(const spi::ServiceRecord& record) {
  Json addresses = Json::array();
  for (const spi::Address& address : record.addresses)
    addresses.push_back({{"transport", address.transport}, {"locator", address.locator}});
  Json body = {{"id", to_hex(record.id)},           {"name", record.name}, {"incarnation", record.incarnation},
               {"context", to_hex(record.context)}, {"pid", record.pid},   {"addresses", std::move(addresses)}};
  for (const ripc_service_id group : record.groups) body["groups"].push_back(to_hex(group));
  return body;
}

Status corrupt(const char* what) {
  return Status(RIPC_CORRUPT, std::string("This is not a service record: ") + what +
                                  ". Remove it, or let the service be registered again.");
}

Result<spi::ServiceRecord> from_json(const Json& body, ripc_service_id id) {
  if (!body.is_object()) return corrupt("it is not a JSON object");
  const std::optional<std::uint64_t> written_id = hex_member(body, "id");
  if (!written_id) return corrupt("it has no ID");
  if (*written_id != id) return corrupt("it is that of another ID");
  const std::string* name = string_member(body, "name");
  const std::optional<std::uint64_t> incarnation = number_member(body, "incarnation");
  const std::optional<std::uint64_t> context = hex_member(body, "context");
  const std::optional<std::uint64_t> pid = number_member(body, "pid");
  const Json* addresses = member(body, "addresses");
  if (name == nullptr || !incarnation || !context || !pid || *pid > std::numeric_limits<std::uint32_t>::max() ||
      addresses == nullptr || !addresses->is_array() || addresses->size() > kMaxAddresses)
    return corrupt("a member is missing or of the wrong type");

  spi::ServiceRecord record;
  record.id = id;
  record.name = *name;
  record.incarnation = *incarnation;
  record.context = *context;
  record.pid = static_cast<std::uint32_t>(*pid);
  for (const Json& address : *addresses) {
    if (!address.is_object()) return corrupt("an address is not a JSON object");
    const std::string* transport = string_member(address, "transport");
    const std::string* locator = string_member(address, "locator");
    if (transport == nullptr || locator == nullptr) return corrupt("an address lacks transport or locator");
    record.addresses.push_back({*transport, *locator});
  }
  if (const Json* groups = member(body, "groups")) {
    if (!groups->is_array() || groups->size() > kMaxGroups) return corrupt("its groups are not a list of up to 64");
    for (const Json& group : *groups) {
      const std::string* text = group.get_ptr<const std::string*>();
      const std::optional<std::uint64_t> number = text == nullptr ? std::nullopt : from_hex(*text);
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
  const Json body = to_json(record);
  // The writer would throw at a byte that is not UTF-8; let it leave such bytes out, and see whether it did.
  const std::string text = body.dump(-1, ' ', false, Json::error_handler_t::ignore);
  const unsigned format = record.groups.empty() ? kFormat : kFormatWithGroups;
  std::string whole =
      "{\"format\":" + std::to_string(format) + ",\"check\":\"" + to_hex(fnv1a(text)) + "\",\"record\":" + text + "}\n";
  if (whole.size() > kMaxRecordSize)
    return Status(RIPC_LIMIT, "The service cannot be published: its record would have " + std::to_string(whole.size()) +
                                  " bytes, more than 65536. Give it fewer or shorter addresses.");
  if (parse(text) != body)
    return Status(RIPC_INVALID_ARGUMENT, "The service cannot be published: its name or an address is not UTF-8.");
  return whole;
}

Result<spi::ServiceRecord> decode_service_record(std::string_view text, ripc_service_id id) {
  if (text.size() > kMaxRecordSize) return corrupt("it is larger than 64 KiB");
  const Json whole = parse(text);
  if (!whole.is_object()) return corrupt("it is not a JSON object");
  const std::optional<std::uint64_t> format = number_member(whole, "format");
  if (!format) return corrupt("it has no format number");
  if (*format != kFormat && *format != kFormatWithGroups)
    return Status(RIPC_VERSION_MISMATCH,
                  "The service record has format " + std::to_string(*format) +
                      "; this libripc knows formats 1 and 2. Use one version of libripc on this host.");
  const std::optional<std::uint64_t> check = hex_member(whole, "check");
  const Json* body = member(whole, "record");
  if (!check || body == nullptr || !body->is_object()) return corrupt("a member is missing or of the wrong type");
  Result<spi::ServiceRecord> record = from_json(*body, id);
  if (record.ok() && record->groups.empty() != (*format == kFormat)) return corrupt("it has groups, or lacks them");
  // Of the text as it would be written now: what a hostile text holds besides is not looked at.
  if (record.ok() && fnv1a(to_json(*record).dump()) != *check)
    return corrupt("its check sum is wrong, so it is torn or was edited");
  return record;
}

Result<spi::ServiceRecord> decode_record_body(std::string_view text, ripc_service_id id) {
  return from_json(parse(text), id);
}

}  // namespace ripc::resolver
