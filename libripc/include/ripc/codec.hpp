// SPDX-License-Identifier: Apache-2.0
// libripc for C++: typed calls. A Codec defines how a type travels: as FlatBuffers, Protocol Buffers or plain memory.
//
//   template <>
//   struct ripc::Codec<Point> : ripc::PlainCodec<Point> {};
//
//   (void)ripc::on_typed<Point>(rpc, kMirror, [](const Point& point, const ripc::Request&) { return mirror(point); });
//   auto answer = co_await ripc::call_typed<Point>(rpc, server, kMirror, point);
//   if (answer.value) use(*answer.value);
//
// Ownership, threads and errors are those of ripc/rpc.hpp.
#pragma once

#include <concepts>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "ripc/rpc.hpp"

namespace ripc {

// How values of T travel. Specialise it for T, with two static functions:
//
//   static auto encode(const T& value, auto&& send)      returns send(items), a std::span<const Item>; the memory of
//                                                        the items must last until send() returns, so it may be local
//   static std::optional<T> decode(const auto& received) makes a T of the items of a Request or a CallResult; nothing
//                                                        if they are not a T. The T may point into the items.
template <typename T>
struct Codec;

// T has a Codec.
template <typename T>
concept Coded = requires(const T& value, const Request& request, const CallResult& result,
                         void (&send)(std::span<const Item>)) {
  Codec<T>::encode(value, send);
  { Codec<T>::decode(request) } -> std::same_as<std::optional<T>>;
  { Codec<T>::decode(result) } -> std::same_as<std::optional<T>>;
};

// Sends plain values as they are in memory. Both peers must have the same byte order and layout.
template <typename T>
struct PlainCodec {
  static auto encode(const T& value, auto&& send) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
    const Item one = item(std::as_bytes(std::span(&value, 1)));
    return send(std::span<const Item>(&one, 1));
  }
  static std::optional<T> decode(const auto& received) {
    const ItemView view = received.item(0);
    if (received.item_count() != 1 || view.bytes().size() != sizeof(T)) return std::nullopt;
    std::optional<T> value(std::in_place);
    std::memcpy(&*value, view.bytes().data(), sizeof(T));
    return value;
  }
};

// Text in one item.
template <>
struct Codec<std::string> {
  static auto encode(const std::string& text, auto&& send) {
    const Item one = item(bytes_of(text));
    return send(std::span<const Item>(&one, 1));
  }
  static std::optional<std::string> decode(const auto& received) {
    if (received.item_count() != 1 || !received.item(0).ok()) return std::nullopt;
    return std::string(received.item(0).text());
  }
};

// How a typed call ended.
template <typename T>
struct TypedResult {
  CallResult result;       // keeps what `value` may point to
  std::optional<T> value;  // nullopt if the call was not answered, or the answer is not a T
};

// Like Call, for an answer of type T.
template <typename T>
class [[nodiscard]] TypedCall : public Call {
 public:
  using Call::Call;
  TypedResult<T> await_resume() {
    TypedResult<T> end{Call::await_resume(), std::nullopt};
    if (end.result.answered()) end.value = Codec<T>::decode(end.result);
    return end;
  }
};

// Like Rpc::call(), but co_await gives a TypedResult<Answer>.
template <typename Answer, typename Question>
requires Coded<Answer> && Coded<Question> TypedCall<Answer> call_typed(Rpc& rpc, ServiceId to, std::uint32_t method,
                                                                       const Question& question,
                                                                       const CallOptions& options = {}) {
  return Codec<Question>::encode(question, [&](std::span<const Item> items) {
    return TypedCall<Answer>(rpc.handle(), to, method, items, options);
  });
}

// Like Request::reply(), with a typed answer.
template <Coded Answer>
Result<Ticket> reply_typed(Request& request, const Answer& answer, std::uint32_t code = 0) {
  return Codec<Answer>::encode(answer, [&](std::span<const Item> items) { return request.reply(items, code); });
}

namespace detail {

template <typename T>
inline constexpr bool kIsTask = false;
template <typename T>
inline constexpr bool kIsTask<Task<T>> = true;

template <typename Answer>
void answer_typed(Request& request, const Answer& answer) {
  const auto sent = reply_typed(request, answer);
  if (!sent.ok()) request.drop(sent.code());
}

}  // namespace detail

// Like Rpc::on(). The handler gets (const Question&, const Request&), which are valid until it ends, and returns an
// Answer or a Task<Answer>. A request that does not hold a Question is dropped with RIPC_CORRUPT.
template <Coded Question, typename Handler>
requires std::invocable<Handler&, const Question&, const Request&> Error on_typed(Rpc& rpc, std::uint32_t method,
                                                                                  Handler handler,
                                                                                  std::uint32_t flags = 0) {
  using Given = std::invoke_result_t<Handler&, const Question&, const Request&>;
  if (detail::is_empty(handler)) return detail::no_function();
  if constexpr (detail::kIsTask<Given>) {
    return rpc.on(
        method,
        [handler = std::move(handler)](Request request) mutable -> Task<> {
          const std::optional<Question> question = Codec<Question>::decode(request);
          if (question)
            detail::answer_typed(request, co_await handler(*question, request));
          else
            request.drop(RIPC_CORRUPT);
        },
        flags);
  } else {
    return rpc.on(
        method,
        [handler = std::move(handler)](Request request) mutable {
          const std::optional<Question> question = Codec<Question>::decode(request);
          if (question)
            detail::answer_typed(request, handler(*question, request));
          else
            request.drop(RIPC_CORRUPT);
        },
        flags);
  }
}

}  // namespace ripc
