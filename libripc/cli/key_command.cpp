// SPDX-License-Identifier: Apache-2.0
// ripc key: the key that joins hosts, and the identity of a member.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "exit_code.hpp"

namespace cli {
namespace {

struct KeyOptions {
  std::string file;
  bool force = false;
  bool identity = false;
  bool json = false;
};

int show(const ripc::IdentityInfo& identity, bool json) {
  if (json) {
    print_json({{"file", identity.file}, {"public_key", identity.public_key}});
  } else {
    std::printf("%s\n", identity.public_key.c_str());
  }
  return kOk;
}

int run_new_identity(const KeyOptions& options) {
  const auto made = ripc::create_identity(options.file, options.force);
  if (!made.ok()) return fail(made.error());
  if (options.json) return show(*made, true);
  std::printf("%s has a new identity. Its public key:\n%s\n", made->file.c_str(), made->public_key.c_str());
  std::printf("Make it a member where the trust file is kept: ripc trust add NAME %s --holds SERVICE,...\n",
              made->public_key.c_str());
  return kOk;
}

int run_show(const KeyOptions& options) {
  const auto identity = ripc::read_identity(options.file);
  return identity.ok() ? show(*identity, options.json) : fail(identity.error());
}

int run_new(const KeyOptions& options) {
  if (options.identity) return run_new_identity(options);
  const auto path = ripc::create_cluster_key(options.file, options.force);
  if (!path.ok()) return fail(path.error());
  if (options.json) {
    print_json({{"file", *path}});
    return kOk;
  }
  std::printf("%s has a new cluster key.\n", path->c_str());
  if (options.file.empty() && std::getenv("RIPC_CLUSTER_KEY_FILE") != nullptr) {
    std::printf("Unset RIPC_CLUSTER_KEY_FILE, which names another one, to use it.\n");
  } else if (options.file.empty()) {
    std::printf("Programs that you start from now on talk to hosts that have a copy of this file, and to no others.\n");
  } else {
    std::printf("Programs with RIPC_CLUSTER_KEY_FILE=%s talk to hosts that have a copy of it, and to no others.\n",
                path->c_str());
  }
  return kOk;
}

}  // namespace

void add_key_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("key", "Make the key that joins hosts, or an identity");
  command->require_subcommand(1);
  command->footer(std::string("Example: ripc key new\n") + kExitCodeHelp);
  auto options = std::make_shared<KeyOptions>();
  CLI::App* made = command->add_subcommand("new", "Make a cluster key, for this host and those that get a copy");
  made->add_option("-o,--output", options->file,
                   "The file; without: $XDG_CONFIG_HOME/ripc/cluster.key, else ~/.config/ripc/cluster.key; of an "
                   "identity: identity.key there");
  made->add_flag("--identity", options->identity, "Make an identity, which tells members of a cluster apart");
  made->add_flag("--force", options->force, "Replace a key that is there");
  made->add_flag("--json", options->json, "Print one JSON object");
  made->footer(std::string("Example: ripc key new && scp -p ~/.config/ripc/cluster.key other:.config/ripc/\n"
                           "A host joins with a copy of the file. Programs read it when they start.\n") +
               kExitCodeHelp);
  made->callback([options, &exit_code] { exit_code = run_new(*options); });
  CLI::App* shown = command->add_subcommand("show", "Print the public key of this user's identity");
  shown->add_option("-f,--file", options->file, "The identity file; without: the one that programs use");
  shown->add_flag("--json", options->json, "Print one JSON object");
  shown->footer(std::string("Example: ripc key show\n") + kExitCodeHelp);
  shown->callback([options, &exit_code] { exit_code = run_show(*options); });
}

}  // namespace cli
