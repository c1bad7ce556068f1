// SPDX-License-Identifier: Apache-2.0
// A parsed JSON text. nlohmann::json does the parsing; its own values take memory to be destroyed, and end the process
// where there is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ripc::internal::resolver {

class JsonValue {
 public:
  enum class Kind : std::uint8_t {
    none,  // not JSON
    object,
    array,
    string,
    number,  // not negative, and an integer
    other,
  };

  // The whole text; Kind::none if it is not JSON, not UTF-8, or nested deeper than `max_depth`. Of members with the
  // same name the last one counts. Throws std::bad_alloc.
  static JsonValue parse(std::string_view text, int max_depth);

  Kind kind() const noexcept { return kind_; }
  // Of an array.
  const std::vector<JsonValue>& elements() const noexcept { return elements_; }
  // Of an object, by name; nullptr or nothing if there is none, or none of that kind.
  const JsonValue* member(std::string_view name) const noexcept;
  const std::string* string_member(std::string_view name) const noexcept;
  std::optional<std::uint64_t> number_member(std::string_view name) const noexcept;
  // nullptr if it is no string.
  const std::string* string() const noexcept { return kind_ == Kind::string ? &text_ : nullptr; }

 private:
  class Builder;

  Kind kind_ = Kind::none;
  std::uint64_t number_ = 0;
  std::string text_;
  std::vector<std::string> names_;  // of the elements of an object
  std::vector<JsonValue> elements_;
};

// Appends a JSON string.
void append_json_string(std::string_view text, std::string& to);

}  // namespace ripc::internal::resolver
