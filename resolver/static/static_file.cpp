// SPDX-License-Identifier: Apache-2.0
#include "resolver/static/static_file.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/parse_number.hpp"
#include "base/plain_text.hpp"

namespace ripc::internal::resolver {
namespace {

constexpr std::string_view kGroupPrefix = "group:";

bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// One line, parsed from left to right.
class Line {
 public:
  explicit Line(std::string_view text) : rest_(text) {}

  // True at the end, or where a comment starts.
  bool at_end() noexcept {
    while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
    return rest_.empty() || rest_.front() == '#';
  }
  char front() const noexcept { return rest_.front(); }

  // Up to the next white space.
  std::string_view word() noexcept {
    std::size_t size = 0;
    while (size < rest_.size() && !is_space(rest_[size])) ++size;
    return take(size);
  }
  // The text between quotation marks; nothing if the second mark is missing or followed directly by other text.
  std::optional<std::string_view> quoted() noexcept {
    rest_.remove_prefix(1);
    const std::size_t size = rest_.find('"');
    if (size == std::string_view::npos) return std::nullopt;
    const std::string_view text = take(size);
    rest_.remove_prefix(1);
    if (!rest_.empty() && !is_space(rest_.front())) return std::nullopt;
    return text;
  }

 private:
  std::string_view take(std::size_t size) noexcept {
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return text;
  }
  std::string_view rest_;
};

// Decimal, or hexadecimal after 0x.
std::optional<ripc_service_id> parse_id(std::string_view word) noexcept {
  int base = 10;
  if (word.starts_with("0x") || word.starts_with("0X")) {
    word.remove_prefix(2);
    base = 16;
  }
  ripc_service_id id = 0;
  if (!parse_number(word, id, base) || id == 0) return std::nullopt;
  return id;
}

// Bytes from a file, fit for a message.
std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string result = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    result += byte >= 0x20 && byte < 0x7f ? c : '?';
  }
  return result + (text.size() > kLongest ? "...'" : "'");
}

// The service that the line names. If the result is empty, `fault` says why.
std::optional<spi::ServiceRecord> parse_service(Line& line, const NameHash& hash_name, std::string& fault) {
  spi::ServiceRecord record;
  if (is_digit(line.front())) {
    const std::string_view word = line.word();
    const std::optional<ripc_service_id> id = parse_id(word);
    if (!id) {
      fault = shown(word) +
              " is not a service ID: 1 to 18446744073709551615, or hexadecimal after 0x. Correct it, or put " +
              "a name that starts with a digit in quotation marks.";
      return std::nullopt;
    }
    if (is_group(*id)) {
      fault = shown(word) + " is a group, not a service: write group: and its number at the end of its members' lines.";
      return std::nullopt;
    }
    record.id = *id;
    return record;
  }
  std::optional<std::string_view> name;
  if (line.front() == '"') {
    name = line.quoted();
    if (!name) {
      fault = "the name in quotation marks does not end in one, followed by a space. Correct it.";
      return std::nullopt;
    }
  } else {
    name = line.word();
  }
  const Result<ripc_service_id> id = hash_name(*name);
  if (!id.ok()) {
    fault = shown(*name) + " is not a service name: " + std::string(id.status().text());
    return std::nullopt;
  }
  record.id = *id;
  record.name = *name;
  return record;
}

bool parse_address(std::string_view word, const AddressCheck& check_address, spi::ServiceRecord& record,
                   std::string& fault) {
  const std::size_t colon = word.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == word.size()) {
    fault = shown(word) + " is not an address: write TRANSPORT:LOCATOR, such as socket:10.0.0.7:7000.";
    return false;
  }
  if (record.addresses.size() == spi::kMaxAddresses) {
    fault = "the service has more than " + std::to_string(spi::kMaxAddresses) + " addresses. Leave some out.";
    return false;
  }
  record.addresses.push_back({std::string(word.substr(0, colon)), std::string(word.substr(colon + 1))});
  if (const Status status = check_address(record.addresses.back()); !status.ok()) {
    fault = shown(word) + " is not an address: " + std::string(status.text());
    return false;
  }
  return true;
}

// Parses the text after "group:".
bool parse_group(std::string_view word, const NameHash& hash_group, spi::ServiceRecord& record, std::string& fault) {
  ripc_service_id group = 0;
  if (!word.empty() && is_digit(word.front())) {
    const std::optional<ripc_service_id> number = parse_id(word);
    if (!number || *number > RIPC_GROUP_NUMBER_MAX) {
      fault = shown(word) + " is not the number of a group: 1 to 2305843009213693951, or hexadecimal after 0x.";
      return false;
    }
    group = RIPC_GROUP_ID(*number);
  } else {
    const Result<ripc_service_id> id = hash_group(word);
    if (!id.ok()) {
      fault = shown(word) + " is not the name of a group: " + std::string(id.status().text());
      return false;
    }
    group = *id;
  }
  const auto place = std::lower_bound(record.groups.begin(), record.groups.end(), group);
  if (place != record.groups.end() && *place == group) return true;
  if (record.groups.size() == kMaxGroups) {
    fault = "the service is in more than 64 groups. Leave some out.";
    return false;
  }
  record.groups.insert(place, group);
  return true;
}

// What is wrong with the line, or "" and, unless it is blank, a record.
std::string parse_line(std::string_view text, const NameHash& hash_name, const NameHash& hash_group,
                       const AddressCheck& check_address, std::optional<spi::ServiceRecord>& record) {
  std::string fault;
  if (text.find('\0') != std::string_view::npos) return "there is a zero byte. Correct it: the file is plain text.";
  Line line(text);
  if (line.at_end()) return fault;
  record = parse_service(line, hash_name, fault);
  if (!record) return fault;
  while (!line.at_end()) {
    const std::string_view word = line.word();
    const bool is_good = word.starts_with(kGroupPrefix)
                             ? parse_group(word.substr(kGroupPrefix.size()), hash_group, *record, fault)
                             : parse_address(word, check_address, *record, fault);
    if (!is_good) return fault;
  }
  if (record->addresses.empty()) fault = "the service has no address: write TRANSPORT:LOCATOR after it.";
  return fault;
}

}  // namespace

Result<std::vector<spi::ServiceRecord>> parse_static_file(std::string_view text, std::string_view file,
                                                          const NameHash& hash_name, const NameHash& hash_group,
                                                          const AddressCheck& check_address) {
  std::vector<spi::ServiceRecord> records;
  std::unordered_map<ripc_service_id, std::size_t> lines;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::optional<spi::ServiceRecord> record;
    std::string fault = parse_line(text.substr(0, end), hash_name, hash_group, check_address, record);
    if (fault.empty() && record) {
      const auto [known, is_new] = lines.emplace(record->id, number);
      if (!is_new)
        fault = "the service ID " + id_text(record->id) + " is already in line " + std::to_string(known->second) +
                ". Put all its addresses in one line, or rename one of the two.";
    }
    if (!fault.empty())
      return Status(RIPC_INVALID_ARGUMENT, std::string(file) + ", line " + std::to_string(number) + ": " + fault);
    if (record) records.push_back(std::move(*record));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return records;
}

}  // namespace ripc::internal::resolver
