// SPDX-License-Identifier: Apache-2.0
// ripc trust: who the members of a cluster are, and what each may be.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "exit_code.hpp"

namespace cli {
namespace {

struct TrustOptions {
  std::string file;
  std::string name;
  std::string key;
  std::string holds, joins, calls, user;
  bool has_calls = false;
  std::string signer;
  bool force = false;
  bool json = false;
};

const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

int fail_here(const ripc::Error& error) { return fail(of_this_user(error)); }

int finish(ripc_status status, const TrustOptions& options, const std::string& done) {
  if (status != RIPC_OK) return fail_here(ripc::Error::from_last_call(status));
  std::printf("%s Programs of this host follow within a second. Copy the file to the other hosts.\n", done.c_str());
  if (options.signer.empty()) return kOk;
  const auto signer = ripc::read_identity(options.signer);
  if (!signer.ok()) return fail_here(signer.error());
  std::printf(
      "It is signed. Hosts whose cluster key file has the line 'signer %s' take no other one.\n"
      "Programs read that file when they start.\n",
      signer->public_key.c_str());
  return kOk;
}

// This user's identity, as the user's programs find it; made in its default place if there is none.
auto own_identity() {
  const bool is_default = std::getenv("RIPC_IDENTITY_FILE") == nullptr;
  auto made = is_default ? ripc::create_identity() : ripc::read_identity();
  return made.ok() || !is_default ? std::move(made) : ripc::read_identity();
}

int run_add(const TrustOptions& options) {
  const auto members = ripc::read_trust(options.file);
  // From here on, this status means that the arguments are wrong.
  if (members.code() == RIPC_INVALID_ARGUMENT) return fail(members.error());
  std::string line = options.key;
  if (line.empty()) {
    const auto own = own_identity();
    if (!own.ok()) return fail(own.error());
    line = own->public_key;
  }
  if (members.ok()) {
    const auto known = std::ranges::find(*members, line, &ripc::TrustMember::public_key);
    if (known != members->end() && known->name != options.name) {
      const std::string whose = options.key.empty() ? "This user's identity is" : "This key is that of";
      return fail(kFailure, whose + " member '" + known->name + "' already: give KEY, the key of '" + options.name +
                                "' (`ripc key show` prints it on its host), or first run ripc trust remove " +
                                known->name + ".");
    }
  }
  if (!options.holds.empty()) line += " holds=" + options.holds;
  if (!options.joins.empty()) line += " joins=" + options.joins;
  if (options.has_calls) line += " calls=" + options.calls;
  if (!options.user.empty()) line += " user=" + options.user;
  const auto change = options.force ? ripc_trust_change : ripc_trust_add;
  const ripc_status status = change(or_null(options.file), options.name.c_str(), line.c_str(), or_null(options.signer));
  if (status == RIPC_INVALID_ARGUMENT) return fail(kUsage, ripc::Error::from_last_call(status).text());
  return finish(status, options, options.name + " is a member.");
}

int run_remove(const TrustOptions& options) {
  const ripc_status status =
      ripc_trust_change(or_null(options.file), options.name.c_str(), nullptr, or_null(options.signer));
  return finish(status, options, options.name + " is no member any more.");
}

int run_sign(const TrustOptions& options) {
  const ripc_status status = ripc_trust_change(or_null(options.file), nullptr, nullptr, options.signer.c_str());
  return finish(status, options, "The trust file is written.");
}

int run_list(const TrustOptions& options) {
  const auto members = ripc::read_trust(options.file);
  if (!members.ok()) return fail_here(members.error());
  if (options.json) {
    for (const ripc::TrustMember& member : *members)
      print_json(
          {{"name", member.name}, {"public_key", member.public_key}, {"rights", member.rights}, {"line", member.line}});
    return kOk;
  }
  std::vector<std::vector<std::string>> rows{{"MEMBER", "RIGHTS", "PUBLIC KEY"}};
  for (const ripc::TrustMember& member : *members)
    rows.push_back(
        {printable(member.name), member.rights.empty() ? "calls=*" : printable(member.rights), member.public_key});
  print_table(rows);
  return kOk;
}

int run_check(const TrustOptions& options) {
  const auto members = ripc::read_trust(options.file);
  if (!members.ok()) return fail_here(members.error());
  std::printf("The trust file is good: %zu member%s.\n", members->size(), members->size() == 1 ? "" : "s");
  const auto own = ripc::read_identity();
  if (!own.ok()) {
    std::printf("This user has no identity that can be used: ripc key new --identity makes one.\n");
    return kOk;
  }
  const auto found = std::ranges::find_if(
      *members, [&](const ripc::TrustMember& member) { return member.public_key == own->public_key; });
  if (found != members->end()) {
    std::printf("This user's identity is %s.\n", printable(found->name).c_str());
  } else {
    std::printf("This user's identity is not in it: ripc trust add NAME %s\n", own->public_key.c_str());
  }
  return kOk;
}

}  // namespace

void add_trust_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("trust", "Say who the members of the cluster are, and what each may be");
  command->require_subcommand(1);
  command->footer(std::string("Example: ripc trust list\n") + kExitCodeHelp);
  auto options = std::make_shared<TrustOptions>();
  const auto add = [&](const char* name, const char* text, int (*run)(const TrustOptions&), const char* example) {
    CLI::App* made = command->add_subcommand(name, text);
    made->add_option("-f,--file", options->file,
                     "The trust file; without: $RIPC_TRUST_FILE, else `trust` beside the default cluster key");
    made->footer(std::string("Example: ") + example + "\n" + kExitCodeHelp);
    made->callback([options, run, &exit_code] { exit_code = run(*options); });
    return made;
  };
  CLI::App* added = add("add", "Add a member", run_add,
                        "ripc trust add alice ed25519:... --holds 'shop.*,bank' --joins prices --calls bank");
  CLI::App* removed = add("remove", "Remove a member", run_remove, "ripc trust remove alice");
  CLI::App* listed = add("list", "List the members", run_list, "ripc trust list");
  add("check", "Check the file as programs do", run_check, "ripc trust check");
  CLI::App* made = add("sign", "Sign the file", run_sign, "ripc trust sign --signer admin.key");
  for (CLI::App* with_name : {added, removed})
    with_name->add_option("NAME", options->name, "The member's name")->required();
  added->add_option("KEY", options->key,
                    "The member's public key, as `ripc key show` prints it on its host; without: that of this user's "
                    "identity, which is made if there is none");
  added->add_option("--holds", options->holds, "Service names that it may hold: exact, or a prefix with *; else none");
  added->add_option("--joins", options->joins, "Groups that it may join, or *; else none");
  CLI::Option* calls =
      added->add_option("--calls", options->calls, "Services that it may send to, '' for none; without: every service");
  added->parse_complete_callback([options, calls] { options->has_calls = calls->count() != 0; });
  added->add_option("--user", options->user, "A user ID: on one host, this user's processes are this member");
  added->add_flag("--force", options->force, "Replace a member of this name");
  for (CLI::App* changed : {added, removed})
    changed->add_option("--signer", options->signer, "The identity file of whoever signs; without, nobody signs");
  made->add_option("--signer", options->signer, "The identity file of whoever signs")->required();
  listed->add_flag("--json", options->json, "Print one JSON object for each member");
}

}  // namespace cli
