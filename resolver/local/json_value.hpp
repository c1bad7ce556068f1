// SPDX-License-Identifier: Apache-2.0
// A parsed JSON text. nlohmann::json does the parsing; its own values allocate memory in their destructors, and end the
// process if there is none.
#pragma once

#include <cstddef>
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

  // Parses the whole text; Kind::none if it is not JSON, not UTF-8, or nested deeper than `max_depth`. If members have
  // the same name, the last one counts. Throws std::bad_alloc.
  static JsonValue parse(std::string_view text, std::size_t max_depth);

  Kind kind() const noexcept { return kind_; }
  // The elements of an array.
  const std::vector<JsonValue>& elements() const noexcept { return elements_; }
  // A member of an object, by name; nullptr or nullopt if there is none with this name, or it has another kind.
  const JsonValue* member(std::string_view name) const noexcept;
  const std::string* string_member(std::string_view name) const noexcept;
  std::optional<std::uint64_t> number_member(std::string_view name) const noexcept;
  // nullptr if the value is not a string.
  const std::string* string() const noexcept { return kind_ == Kind::string ? &text_ : nullptr; }

 private:
  class Builder;

  Kind kind_ = Kind::none;
  std::uint64_t number_ = 0;
  std::string text_;
  std::vector<std::string> names_;  // of an object's elements
  std::vector<JsonValue> elements_;
};

// Appends a JSON string.
void append_json_string(std::string_view text, std::string& to);

}  // namespace ripc::internal::resolver
