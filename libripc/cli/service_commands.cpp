// SPDX-License-Identifier: Apache-2.0
// ripc resolve, services and doctor: show which services there are, and whether this machine is set up properly.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "exit_code.hpp"
#include "rails.hpp"

namespace cli {
namespace {

// Adds the path that is taken to the service. A service that is there but cannot be reached is part of the answer.
ripc::ServiceInfo with_path(ripc::Context& context, ripc::ServiceInfo info) {
  auto path = context.find_path(info.id);
  if (path.ok()) return *std::move(path);
  info.reason += "; no path works: " + std::string(path.error().text());
  info.transport = "none";
  return info;
}

// The rails of the path; none if the path does not work, or stays within this host.
std::vector<ripc::RailInfo> rails_to(ripc::Context& context, const ripc::ServiceInfo& info) {
  if (info.transport == "none") return {};
  auto rails = context.rails(info.id);
  return rails.ok() ? *std::move(rails) : std::vector<ripc::RailInfo>();
}

Json with_rails(const ripc::ServiceInfo& info, const std::vector<ripc::RailInfo>& rails) {
  Json json = to_json(info);
  json["rails"] = to_json(rails);
  return json;
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string group_list(const ripc::ServiceInfo& info) {
  std::string list;
  for (const ripc::ServiceId group : info.groups) list += (list.empty() ? "" : " ") + format_id(group);
  return or_dash(list);
}

int run_resolve_group(ripc::Context& context, const Target& target, double timeout, bool json) {
  auto members = wait_for_members(context, target, to_timeout(timeout));
  if (!members.ok()) return fail(members.error());
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows = {{"MEMBER", "NAME", "PID", "PATH", "ADDRESS"}};
  for (const auto& member : *members) {
    const ripc::ServiceInfo info = with_path(context, member);
    if (json) list.push_back(with_rails(info, rails_to(context, info)));
    rows.push_back({format_id(info.id), or_dash(info.name), info.pid == 0 ? "-" : std::to_string(info.pid),
                    info.transport, info.address});
  }
  if (json) {
    print_json({{"id", format_id(target.id)}, {"members", list}});
    return kOk;
  }
  std::printf("group %s, %zu member%s\n", format_id(target.id).c_str(), members->size(),
              members->size() == 1 ? "" : "s");
  print_table(rows);
  return kOk;
}

int run_resolve(const std::string& name, double timeout, bool json) {
  auto target = Target::parse(name);
  if (!target.ok()) return fail(kUsage, target.error().text());
  auto context = open_context({});
  if (!context.ok()) return fail(context.error());
  if (target->is_group()) return run_resolve_group(*context, *target, timeout, json);
  auto found = wait_for_service(*context, *target, to_timeout(timeout));
  if (!found.ok()) return fail(found.error());
  const ripc::ServiceInfo info = with_path(*context, *std::move(found));
  const std::vector<ripc::RailInfo> rails = rails_to(*context, info);
  if (json) {
    print_json(with_rails(info, rails));
    return kOk;
  }
  std::vector<std::vector<std::string>> rows = {{"id", format_id(info.id)},
                                                {"name", or_dash(info.name)},
                                                {"pid", info.pid == 0 ? "-" : std::to_string(info.pid)},
                                                {"incarnation", std::to_string(info.incarnation)},
                                                {"groups", group_list(info)},
                                                {"path", info.transport},
                                                {"address", info.address},
                                                {"reason", info.reason},
                                                {"others", or_dash(info.others)}};
  for (const std::string& line : rail_lines(rails)) rows.push_back({"rail", line});
  print_table(rows);
  return kOk;
}

// If nothing leaves this host, prints this, and how to join other hosts.
void print_network_limit() {
  const auto findings = ripc::Context::diagnose();
  if (!findings.ok()) return;
  for (const auto& finding : *findings) {
    if (finding.subject == "network" && finding.level == 0 && !finding.advice.empty())
      std::printf("%s. %s\n", finding.text.c_str(), finding.advice.c_str());
  }
}

int run_services(bool json) {
  auto context = open_context({});
  if (!context.ok()) return fail(context.error());
  // If one resolver cannot be asked, the services that the others know are shown anyway.
  std::vector<ripc::ServiceInfo> services;
  const auto collect = [](void* to, const ripc_service_info* info) {
    static_cast<std::vector<ripc::ServiceInfo>*>(to)->push_back(ripc::ServiceInfo::from_c(*info));
  };
  const ripc_status status = ripc_list_services(context->handle(), collect, &services);
  const ripc::Error failure = status == RIPC_OK ? ripc::Error() : ripc::Error::from_last_call(status);
  if (status != RIPC_OK && services.empty()) return fail(failure);
  if (json) {
    Json list = Json::array();
    for (const auto& info : services) list.push_back(to_json(info));
    if (status != RIPC_OK) return print_outcome({{"services", list}}, exit_code_for(status), failure.text());
    print_json({{"services", list}});
    return kOk;
  }
  if (services.empty()) {
    std::printf("no services here; start one with `ripc serve DIR --service NAME`\n");
    print_network_limit();
    return kOk;
  }
  std::vector<std::vector<std::string>> rows = {{"ID", "NAME", "PID", "PATH", "GROUPS", "ADDRESS"}};
  for (const auto& info : services)
    rows.push_back({format_id(info.id), or_dash(info.name), info.pid == 0 ? "-" : std::to_string(info.pid),
                    info.transport, group_list(info), info.address});
  print_table(rows);
  return status == RIPC_OK ? kOk : fail(failure);
}

int run_doctor(bool json) {
  auto findings = ripc::Context::diagnose();
  if (!findings.ok()) return fail(findings.error());
  constexpr const char* kLevels[] = {"good", "limited", "broken"};
  std::uint32_t worst = 0;
  Json list = Json::array();
  for (const auto& finding : *findings) {
    const std::uint32_t level = finding.level > 2 ? 2 : finding.level;
    worst = level > worst ? level : worst;
    list.push_back(
        {{"level", kLevels[level]}, {"subject", finding.subject}, {"text", finding.text}, {"advice", finding.advice}});
    if (json) continue;
    std::printf("%-8s %s: %s\n", kLevels[level], finding.subject.c_str(), finding.text.c_str());
    if (!finding.advice.empty()) std::printf("         -> %s\n", finding.advice.c_str());
  }
  if (json) print_json({{"verdict", kLevels[worst]}, {"version", ripc::version()}, {"findings", list}});
  if (!json)
    std::printf("libripc %s: %s\n", ripc::version(),
                worst == 0   ? "everything is good"
                : worst == 1 ? "works, with the limits above"
                             : "something is broken, see above");
  return worst == 2 ? kFailure : kOk;
}

}  // namespace

CLI::Option* add_timeout(CLI::App& command, double& seconds, const std::string& what) {
  return command.add_option("--timeout", seconds, what)
      ->check(CLI::Validator(
          [](const std::string& text) {
            double number = 0;
            // Not `number < 0`: it may be NaN.
            const bool good = CLI::detail::lexical_cast(text, number) && number >= 0;
            return good ? std::string() : "'" + text + "' is not a time: give seconds, 0 or more, such as 2.5.";
          },
          "SECONDS"))
      ->capture_default_str();
}

CLI::Option* add_transport(CLI::App& command, std::string& transports, const std::string& what) {
  return command.add_option("--transport", transports, what + ", such as shm or shm,socket")
      ->check(CLI::Validator(
          [](const std::string& text) {
            for (const std::string& name : CLI::detail::split(text + ",", ',')) {
              if (name != "shm" && name != "socket" && name != "verbs")
                return "'" + name + "' is not a transport: list some of shm, socket, verbs, separated by commas.";
            }
            return std::string();
          },
          "TRANSPORTS"));
}

void add_resolve_command(CLI::App& app, int& exit_code) {
  struct Options {
    std::string name;
    double timeout = 0;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "resolve", "Say where a service, or each member of a group, is and by which path it is reached");
  command
      ->add_option("NAME", options->name, "The service: a name, or id:NUMBER; or the group: group:NAME, group:NUMBER")
      ->required();
  add_timeout(*command, options->timeout, "Wait up to this many seconds for it to appear");
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(
      std::string("Example: ripc resolve files --timeout 5\n"
                  "A service that is known but cannot be reached has the path none, and the reason why: that "
                  "is an answer, with 0.\n"
                  "`ripc wait` and `ripc ping` tell whether it can be reached.\n"
                  "A rail is a pair of addresses that long items travel over. It is measured while they do: "
                  "`ripc get` shows the rates.\n") +
      kExitCodeHelp);
  command->callback([options, &exit_code] { exit_code = run_resolve(options->name, options->timeout, options->json); });
}

void add_services_command(CLI::App& app, int& exit_code) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("services", "List the living services");
  command->add_flag("--json", *json, "Print one JSON object");
  command->footer(std::string("Example: ripc services --json\n") + kExitCodeHelp);
  command->callback([json, &exit_code] { exit_code = run_services(*json); });
}

void add_doctor_command(CLI::App& app, int& exit_code) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("doctor", "Check this machine for what libripc needs");
  command->add_flag("--json", *json, "Print one JSON object");
  command->footer(std::string("Example: ripc doctor\nExits with 1 if something is broken.\n") + kExitCodeHelp);
  command->callback([json, &exit_code] { exit_code = run_doctor(*json); });
}

}  // namespace cli
