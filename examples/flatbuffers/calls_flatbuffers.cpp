// SPDX-License-Identifier: Apache-2.0
// Typed calls with FlatBuffers: a weather station. weather.fbs defines the types; flat.hpp has the few lines that let
// calls carry them.
//
//   calls_flatbuffers server          answers until somebody asks about "nowhere"
//   calls_flatbuffers client PLACE... asks for a forecast of three days for each place
#include <weather_generated.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "flat.hpp"
#include "ripc/ripc.hpp"

namespace {

constexpr const char* kName = "example-weather";
constexpr std::uint32_t kForecast = 1;
using Question = Flat<weather::Question>;
using Forecast = Flat<weather::Forecast>;

int fail(const char* what, const ripc::Error& error) {
  const std::string text(error.text());
  std::fprintf(stderr, "calls_flatbuffers: %s: %s: %s\n", what, error.name(), text.c_str());
  return 1;
}

Forecast forecast(const Question& question) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<weather::Day> days;
  const int cold = static_cast<int>(question->place()->size());
  for (int day = 0; day < question->days(); ++day)
    days.emplace_back(static_cast<std::int8_t>(day - cold), static_cast<std::int8_t>(day + 3));
  const auto place = builder.CreateString(question->place());
  return {builder, weather::CreateForecast(builder, place, builder.CreateVectorOfStructs(days))};
}

int serve() {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  auto service = context->register_service({.name = kName});
  if (!service) return fail("no service", service.error());
  auto rpc = ripc::Rpc::create(*service);
  if (!rpc) return fail("no endpoint", rpc.error());
  bool open = true;
  const auto error = ripc::on_typed<Question>(*rpc, kForecast, [&](const Question& question, const ripc::Request&) {
    open = question->place()->string_view() != "nowhere";
    return forecast(question);
  });
  if (!error.ok()) return fail("no handler", error);
  std::puts("calls_flatbuffers: serving");
  std::fflush(stdout);
  while (open)
    if (auto events = rpc->run(); !events) return fail("run", events.error());
  // The last answer is still on its way, and the client has yet to end its session.
  while (rpc->run(std::chrono::milliseconds(200))) {
  }
  return 0;
}

ripc::Task<int> ask(ripc::Rpc& rpc, ripc::ServiceId station, std::vector<std::string> places) {
  for (const std::string& place : places) {
    flatbuffers::FlatBufferBuilder builder;
    const Question question(builder, weather::CreateQuestionDirect(builder, place.c_str(), 3));
    const auto end = co_await ripc::call_typed<Forecast>(rpc, station, kForecast, question);
    if (!end.value) co_return fail("no forecast", end.result.error());
    std::printf("calls_flatbuffers: %s:", (*end.value)->place()->c_str());
    const auto& days = *(*end.value)->days();
    for (const weather::Day* day : days) std::printf(" %d to %d", day->low(), day->high());
    std::puts("");
  }
  co_return 0;
}

int run_client(std::vector<std::string> places) {
  auto context = ripc::Context::create();
  if (!context) return fail("no context", context.error());
  auto service = context->register_service();
  if (!service) return fail("no service", service.error());
  auto rpc = ripc::Rpc::create(*service);
  if (!rpc) return fail("no endpoint", rpc.error());
  auto asking = ask(*rpc, *ripc::id_from_name(kName), std::move(places));
  asking.start();
  while (!asking.done())
    if (auto events = rpc->run(); !events) return fail("run", events.error());
  return asking.result();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "server") == 0) return serve();
  if (argc > 2 && std::strcmp(argv[1], "client") == 0) return run_client({argv + 2, argv + argc});
  std::fputs("usage: calls_flatbuffers server | calls_flatbuffers client PLACE...\n", stderr);
  return 2;
}
