// SPDX-License-Identifier: Apache-2.0
// What is shared by the commands that hold a service until a signal ends them.
#pragma once

#include <functional>
#include <string>

#include "command.hpp"

namespace cli {

struct ServingOptions {
  std::string service;  // a name, or id:NUMBER
  std::string transport;
  bool takeover = false;
  bool json = false;
};
// Adds all options but the service.
void add_serving_options(CLI::App& command, ServingOptions& options);

// A service that the command holds.
class Serving {
 public:
  // Registers it. `target` is what the options name.
  static ripc::Result<Serving> begin(const ServingOptions& options, const Target& target);

  ripc::Context& context() noexcept { return context_; }
  ripc::Service& service() noexcept { return service_; }

  // With --json prints one event object that has these fields too; otherwise prints the sentence.
  void say_ready(const Json& fields, const std::string& sentence) const;
  void say_closed(const ripc::Error& end, const Json& fields, const std::string& sentence) const;

 private:
  Serving(ServingOptions options, ripc::Context context, ripc::Service service)
      : options_(std::move(options)), context_(std::move(context)), service_(std::move(service)) {}
  void say(Json event, const Json& fields, const std::string& sentence) const;

  ServingOptions options_;
  ripc::Context context_;
  ripc::Service service_;
};

// Calls `step`, which waits for work and does it, until a signal or the end of the service. RIPC_INTERRUPTED is the
// orderly end. Meanwhile it reports on stderr what the context refuses.
ripc::Error serve_until_stopped(const StopOnSignal& stop, Serving& serving, const std::function<ripc::Error()>& step);

// The exit code for the result of serve_until_stopped(), which it prints if it is a failure of this service.
int exit_code_after(const ripc::Error& end, const std::string& service);

}  // namespace cli
