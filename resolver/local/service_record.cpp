// SPDX-License-Identifier: Apache-2.0
#include "resolver/local/service_record.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/parse_number.hpp"
#include "base/plain_text.hpp"
#include "base/runtime_directory.hpp"
#include "spi/holder_rules.hpp"

namespace ripc::internal::resolver {
namespace {

constexpr unsigned kFormat = 1;
constexpr unsigned kFormatWithGroups = 2;

std::string to_hex(std::uint64_t number) { return RuntimeDirectory::file_name(number).data(); }

std::uint64_t fnv1a(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// What is wrong with the record; nullptr: nothing.
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
    if (!is_plain_text(address.transport) || !is_plain_text(address.locator))
      return "an address is not UTF-8, or has a control character";
    if (!spi::is_for_records(address)) return "a shared-memory address names a directory";
  }
  return nullptr;
}

void append_string(std::string_view text, std::string& to) {
  to += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') to += '\\';
    to += c;
  }
  to += '"';
}

// The members are sorted by name, so that the text of a record is the same every time.
std::string body_of(const spi::ServiceRecord& record) {
  std::string body = "{\"addresses\":[";
  for (const spi::Address& address : record.addresses) {
    body += &address == record.addresses.data() ? "{\"locator\":" : ",{\"locator\":";
    append_string(address.locator, body);
    body += ",\"transport\":";
    append_string(address.transport, body);
    body += '}';
  }
  body += "],\"context\":\"" + to_hex(record.context) + '"';
  for (std::size_t index = 0; index < record.groups.size(); ++index)
    body += (index == 0 ? ",\"groups\":[\"" : ",\"") + to_hex(record.groups[index]) + '"';
  if (!record.groups.empty()) body += ']';
  body += ",\"id\":\"" + to_hex(record.id) + "\",\"incarnation\":" + std::to_string(record.incarnation) + ",\"name\":";
  append_string(record.name, body);
  body += ",\"pid\":" + std::to_string(record.pid) + '}';
  return body;
}

// Takes a text apart. Each function is false if the text does not go on in this way.
class Reader {
 public:
  explicit Reader(std::string_view text) noexcept : left_(text) {}

  std::string_view left() const noexcept { return left_; }
  bool literal(std::string_view text) noexcept { return left_.starts_with(text) && take(text.size()) == text; }
  template <typename Number>
  bool number(Number& number) noexcept {
    return parse_number(take(std::min(left_.find_first_not_of("0123456789"), left_.size())), number);
  }
  bool hex(std::uint64_t& number) noexcept {
    if (!literal("\"")) return false;
    const std::optional<std::uint64_t> digits = RuntimeDirectory::number_of(left_.substr(0, 16));
    if (!digits) return false;
    number = *digits;
    take(16);
    return literal("\"");
  }
  bool string(std::string& text) {
    if (!literal("\"")) return false;
    while (!left_.empty()) {
      char next = take(1).front();
      if (next == '"') return true;
      if (next == '\\') {
        if (!left_.starts_with('"') && !left_.starts_with('\\')) return false;
        next = take(1).front();
      }
      text += next;
    }
    return false;
  }

 private:
  std::string_view take(std::size_t size) noexcept {
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view left_;
};

// Reads what body_of() writes. The size of the text limits the lists.
bool read_body(Reader reader, spi::ServiceRecord& record) {
  if (!reader.literal("{\"addresses\":[")) return false;
  while (reader.literal(record.addresses.empty() ? "{\"locator\":" : ",{\"locator\":")) {
    spi::Address& address = record.addresses.emplace_back();
    if (!reader.string(address.locator) || !reader.literal(",\"transport\":") || !reader.string(address.transport) ||
        !reader.literal("}"))
      return false;
  }
  if (!reader.literal("],\"context\":") || !reader.hex(record.context)) return false;
  if (reader.literal(",\"groups\":[")) {
    do {
      if (!reader.hex(record.groups.emplace_back())) return false;
    } while (reader.literal(","));
    if (!reader.literal("]")) return false;
  }
  return reader.literal(",\"id\":") && reader.hex(record.id) && reader.literal(",\"incarnation\":") &&
         reader.number(record.incarnation) && reader.literal(",\"name\":") && reader.string(record.name) &&
         reader.literal(",\"pid\":") && reader.number(record.pid) && reader.left() == "}";
}

Status corrupt(const char* what) {
  return Status(RIPC_CORRUPT, std::string("This is not a service record: ") + what +
                                  ". Remove it, or let the service be registered again.");
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
  return whole;
}

Result<spi::ServiceRecord> decode_service_record(std::string_view text, ripc_service_id id) {
  if (text.size() > kMaxRecordSize) return corrupt("it is larger than 64 KiB");
  // An overwrite pads with them.
  Reader reader(text.substr(0, text.find_last_not_of(' ') + 1));
  std::uint64_t format = 0;
  if (!reader.literal("{\"format\":") || !reader.number(format) || reader.left().find_first_of(",}") != 0)
    return corrupt("it has no format number");
  if (format != kFormat && format != kFormatWithGroups)
    return Status(RIPC_VERSION_MISMATCH,
                  "The service record has format " + std::to_string(format) +
                      "; this libripc knows formats 1 and 2. Use one version of libripc on this host.");
  std::uint64_t check = 0;
  spi::ServiceRecord record;
  const bool has_head = reader.literal(",\"check\":") && reader.hex(check) && reader.literal(",\"record\":");
  if (!has_head || !reader.left().ends_with("}\n")) return corrupt("a member is missing or of the wrong type");
  const std::string_view body = reader.left().substr(0, reader.left().size() - 2);
  if (!read_body(Reader(body), record)) return corrupt("a member is missing or of the wrong type");
  if (record.id != id) return corrupt("it is that of another ID");
  if (const char* fault = find_fault(record)) return corrupt(fault);
  if (record.groups.empty() != (format == kFormat)) return corrupt("it has groups, or lacks them");
  if (fnv1a(body) != check) return corrupt("its check sum is wrong, so it is torn or was edited");
  return record;
}

}  // namespace ripc::internal::resolver
