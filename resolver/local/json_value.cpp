// SPDX-License-Identifier: Apache-2.0
#include "resolver/local/json_value.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ripc::internal::resolver {
namespace {

using Json = nlohmann::json;

}  // namespace

// Receives the parser's events.
class JsonValue::Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(JsonValue& root, std::size_t max_depth) : root_(root), max_depth_(max_depth) {}

  bool null() override { return add(Kind::other); }
  bool boolean(bool) override { return add(Kind::other); }
  bool number_integer(number_integer_t) override { return add(Kind::other); }
  bool number_unsigned(number_unsigned_t value) override {
    place().number_ = value;
    return true;
  }
  bool number_float(number_float_t, const string_t&) override { return add(Kind::other); }
  bool string(string_t& value) override {
    JsonValue& added = place();
    added.kind_ = Kind::string;
    added.text_ = std::move(value);
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Kind::object); }
  bool start_array(std::size_t) override { return open(Kind::array); }
  bool key(string_t& name) override {
    name_ = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  // The place for the next value, emptied.
  JsonValue& place() {
    JsonValue* at = &root_;
    if (!open_.empty()) {
      JsonValue& parent = *open_.back();
      const auto known = std::find(parent.names_.begin(), parent.names_.end(), name_);
      if (parent.kind_ == Kind::object && known != parent.names_.end()) {
        at = &parent.elements_[static_cast<std::size_t>(known - parent.names_.begin())];
      } else {
        if (parent.kind_ == Kind::object) parent.names_.push_back(std::move(name_));
        at = &parent.elements_.emplace_back();
      }
    }
    *at = JsonValue();
    at->kind_ = Kind::number;
    return *at;
  }
  bool add(Kind kind) {
    place().kind_ = kind;
    return true;
  }
  // False ends the parsing: code that uses the values, such as their destructor, recurses as deep as they are nested.
  bool open(Kind kind) {
    if (open_.size() == max_depth_) return false;
    JsonValue& added = place();
    added.kind_ = kind;
    open_.push_back(&added);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  JsonValue& root_;
  const std::size_t max_depth_;
  std::string name_;
  std::vector<JsonValue*> open_;  // open values do not move, because only the innermost one grows
};

JsonValue JsonValue::parse(std::string_view text, std::size_t max_depth) {
  JsonValue value;
  Builder builder(value, max_depth);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return {};
  return value;
}

const JsonValue* JsonValue::member(std::string_view name) const noexcept {
  const auto found = std::find(names_.begin(), names_.end(), name);
  return found == names_.end() ? nullptr : &elements_[static_cast<std::size_t>(found - names_.begin())];
}

const std::string* JsonValue::string_member(std::string_view name) const noexcept {
  const JsonValue* value = member(name);
  return value == nullptr ? nullptr : value->string();
}

std::optional<std::uint64_t> JsonValue::number_member(std::string_view name) const noexcept {
  const JsonValue* value = member(name);
  if (value == nullptr || value->kind_ != Kind::number) return std::nullopt;
  return value->number_;
}

void append_json_string(std::string_view text, std::string& to) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::string_view kSpecial = "\b\f\n\r\t\"\\";
  constexpr std::string_view kEscapes = "bfnrt\"\\";
  to += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const std::size_t special = kSpecial.find(c); special != std::string_view::npos) {
      to += '\\';
      to += kEscapes[special];
    } else if (byte < 0x20) {
      to += "\\u00";
      to += kHex[byte >> 4];
      to += kHex[byte & 15];
    } else {
      to += c;
    }
  }
  to += '"';
}

}  // namespace ripc::internal::resolver
