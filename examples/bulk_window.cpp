// SPDX-License-Identifier: Apache-2.0
// Bulk transfer into windows. The rows of a table travel as the long items of one message. Each lands in its own
// window, directly in the receiver's array.
//
//   bulk_window server     offers one array, receives into it, checks it, ends
//   bulk_window client     sends the rows
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "ripc/ripc.hpp"

namespace {

constexpr const char* kName = "example-bulk";
constexpr std::size_t kRows = 4;
constexpr std::size_t kColumns = 1'000'000;

int fail(const char* what, const ripc::Error& error) {
  const std::string text(error.text());
  std::fprintf(stderr, "bulk_window: %s: %s: %s\n", what, error.name(), text.c_str());
  return 1;
}

int receive_table() {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  std::vector<double> table(kRows * kColumns);
  auto service = context->register_service({.name = kName});
  if (!service) return fail("no service", service.error());
  const auto rows = std::as_writable_bytes(std::span(table));
  const std::size_t row_size = kColumns * sizeof(double);
  for (std::size_t row = 0; row < kRows; ++row) {
    // The windows are adjacent, so the rows form one array. The cookie says which row it is.
    if (auto error = service->post_window(rows.subspan(row * row_size, row_size), row); !error.ok())
      return fail("no window", error);
  }
  std::puts("bulk_window: waiting for a table");
  std::fflush(stdout);
  auto message = service->receive(std::chrono::seconds(30));
  if (!message) return fail("receive", message.error());
  // The library delivers the message only after all of its bytes have arrived.
  for (std::size_t index = 0; index < message->item_count(); ++index) {
    if (!message->item(index).ok()) return fail("a row did not arrive", message->item(index).status());
  }
  const double sum = std::accumulate(table.begin(), table.end(), 0.0);
  std::printf("bulk_window: %zu rows arrived, sum %.0f\n", message->item_count(), sum);
  return sum == kColumns * (1.0 + 2.0 + 3.0 + 4.0) ? 0 : 1;
}

int send_table() {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  auto service = context->register_service();
  if (!service) return fail("no service", service.error());
  auto server = ripc::id_from_name(kName);
  if (!server) return fail("no ID", server.error());
  std::vector<ripc::Buffer> rows;
  std::vector<ripc::Item> items;
  for (std::size_t row = 0; row < kRows; ++row) {
    // The receiver maps pool memory and copies it once, straight into the window.
    auto buffer = context->lease(kColumns * sizeof(double));
    if (!buffer) return fail("no buffer", buffer.error());
    auto* numbers = reinterpret_cast<double*>(buffer->data());
    for (std::size_t column = 0; column < kColumns; ++column) numbers[column] = static_cast<double>(row + 1);
    items.push_back(ripc::borrow(buffer->bytes()));
    rows.push_back(std::move(*buffer));
  }
  auto ticket = service->send(*server, items);
  if (!ticket) return fail("send", ticket.error());
  // Until the ticket is complete the receiver may still be reading the rows.
  if (auto error = ticket->wait(std::chrono::seconds(30)); !error.ok()) return fail("not taken", error);
  std::printf("bulk_window: %zu bytes taken\n", kRows * kColumns * sizeof(double));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "server") == 0) return receive_table();
  if (argc == 2 && std::strcmp(argv[1], "client") == 0) return send_table();
  std::fputs("usage: bulk_window server | bulk_window client\n", stderr);
  return 2;
}
