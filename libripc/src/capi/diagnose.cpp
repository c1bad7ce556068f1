// SPDX-License-Identifier: Apache-2.0
// The self-check behind ripc_diagnose() and `ripc doctor`: what libripc needs from this machine and this process.
#include "capi/diagnose.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "base/first_line.hpp"
#include "base/other_directories.hpp"
#include "base/process_barrier.hpp"
#include "base/random.hpp"
#include "base/runtime_directory.hpp"
#include "base/shared_memory.hpp"
#include "capi/error.hpp"
#include "remote/session/endpoint.hpp"

namespace ripc::internal::capi {

namespace {

void check_shared_memory(Report& report) {
  Result<SharedMemory> memory = create_shared_memory("ripc-doctor", 4096, PeerAccess::read_only);
  if (!memory.ok()) {
    report.add(Level::broken, "shared memory", memory.status().text(),
               "allow memfd_create(2) and sealing: the shm transport cannot work without them");
    return;
  }
  report.add(Level::good, "shared memory", "sealed memfd works");
}

void check_huge_pages(Report& report) {
  const std::string free = first_line("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  const std::string policy = first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  if (!free.empty() && free != "0") {
    report.add(Level::good, "huge pages", free + " reserved pages of 2 MiB are free");
  } else if (policy.find("[advise]") != std::string::npos || policy.find("[always]") != std::string::npos ||
             policy.find("[within_size]") != std::string::npos || policy.find("[force]") != std::string::npos) {
    report.add(Level::good, "huge pages", "transparent huge pages are on for shared memory: " + policy);
  } else {
    report.add(Level::limited, "huge pages",
               "none for shared memory (" + (policy.empty() ? "no transparent huge pages" : policy) + ")",
               "long messages run faster with 2 MiB pages: echo advise > "
               "/sys/kernel/mm/transparent_hugepage/shmem_enabled, or reserve some with sysctl vm.nr_hugepages");
  }
}

void check_barrier(Report& report) {
  if (register_process_barrier() && process_barrier()) {
    report.add(Level::good, "membarrier", "senders need no fence instruction");
  } else {
    report.add(Level::limited, "membarrier", "membarrier(2) is not available: every send executes a fence",
               "allow the membarrier system call (a container's seccomp profile may forbid it)");
  }
}

void check_limits(Report& report) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string text = "this process may open " + std::to_string(limit.rlim_cur) +
                           " descriptors; a service needs 2, "
                           "each connected peer about 4";
  if (limit.rlim_cur < 1024) {
    report.add(Level::limited, "descriptors", text, "raise it: ulimit -n 65536");
  } else {
    report.add(Level::good, "descriptors", text);
  }
}

void check_processors(Report& report, const Spin& spin) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  if (processors < 2 && !spin.adapts && spin.time != 0) {
    report.add(Level::limited, "processors",
               "there is one processor: a wait that spins for a peer on this host delays that peer",
               "unset RIPC_SPIN_US: by default waits then spin only for peers on other hosts");
  } else {
    report.add(Level::good, "processors", std::to_string(processors) + " online");
  }
}

// An interface may still appear; until then nobody on another host can reach this one.
void check_socket(Report& report, const Settings& settings) {
  const std::string& interface = settings.socket.interface;
  if (interface.empty() || !settings.socket.bind_address.empty()) return;
  if (!remote::own_addresses(interface).empty()) return;
  report.add(Level::limited, "socket",
             "RIPC_SOCKET_INTERFACE is '" + interface +
                 "': there is no such interface here, or it has no address, so sockets cannot be reached",
             "name an interface that `ip address` shows, or unset it");
}

// Reports who may talk to this user's services from other hosts.
void check_network(Report& report, const NetworkAccess& access) {
  if (access.is_closed) {
    report.add(
        Level::good, "network",
        "services of this host only, over shared memory: nothing beyond it is asked or answered, " + access.reason(),
        access.advice());
  } else if (access.keys == nullptr) {
    report.add(Level::limited, "network",
               "open: everybody who reaches this host's ports is a peer and can claim any service ID, because "
               "RIPC_NETWORK=open asks for no cluster key",
               "make it private: ripc key new, copy the file to the other hosts, and unset RIPC_NETWORK");
  } else {
    report.add(Level::good, "network",
               "only hosts with the cluster key in " + access.key_file +
                   (access.keys->size() == 1 ? "" : " (2 keys: it is being changed)"));
  }
}

// Writes what a context writes there: a socket, and files of records.
Status write_to(RuntimeDirectory& directory) {
  const std::uint64_t context = random_u64();
  const Result<UniqueFd> socket = directory.listen(context);
  if (!socket.ok()) return socket.status();
  directory.remove_context(context);
  const int folder = directory.services_fd();
  const RuntimeDirectory::TemporaryName name = RuntimeDirectory::temporary_name();
  const UniqueFd file(::openat(folder, name.data(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  constexpr std::size_t kBlock = 4096;
  const bool is_written = file && ::write(file.get(), std::string(kBlock, ' ').data(), kBlock) == kBlock;
  const int error = errno;
  if (file) ::unlinkat(folder, name.data(), 0);
  if (is_written) return {};
  return RuntimeDirectory::creation_error(error, "Writing a file in the runtime directory " + directory.path(), folder);
}

void check_environment(Report& report) {
  const std::string unknown = unknown_settings();
  if (unknown.empty()) return;
  report.add(Level::limited, "environment", "libripc has no variable of this name: " + unknown,
             "correct the name, or unset it; `ripc --help` lists the variables");
}

void check_context(Report& report, const ripc_context_options& options) {
  Result<Settings> settings = read_settings(options);
  if (!settings.ok()) {
    report.add(Level::broken, "settings", settings.status().text(), "correct what it names");
    return;
  }
  check_processors(report, settings->spin);
  check_network(report, settings->network);
  check_identity(report, *settings);
  check_encryption(report, *settings);
  Result<std::shared_ptr<RuntimeDirectory>> directory = RuntimeDirectory::open(
      settings->runtime_directory.empty() ? nullptr : settings->runtime_directory.c_str(), settings->peer_policy);
  if (!directory.ok()) {
    report.add(Level::broken, "runtime directory", directory.status().text(),
               "set RIPC_RUNTIME_DIR to a directory of yours");
    return;
  }
  if (const Status status = write_to(**directory); !status.ok()) {
    report.add(Level::broken, "runtime directory", status.text(), "set RIPC_RUNTIME_DIR to a directory of yours");
    return;
  }
  report.add(Level::good, "runtime directory", (*directory)->path());
  for (const OtherDirectory& other : other_runtime_directories((*directory)->path()))
    report.add(Level::limited, "runtime directory",
               other.path + " of this user has " + std::to_string(other.contexts) +
                   " living contexts: their programs and those that use " + (*directory)->path() +
                   " do not meet over shared memory",
               "set RIPC_RUNTIME_DIR (or XDG_RUNTIME_DIR) to the same directory for all programs of this user");
  Result<std::unique_ptr<core::Context>> context = compose(*settings);
  if (!context.ok()) {
    report.add(Level::broken, "context", context.status().text(), "see docs/troubleshooting.md");
    return;
  }
  std::size_t services = 0;
  const Status listed = (*context)->resolver().list([&](const spi::ServiceRecord&) { ++services; });
  if (listed.ok()) {
    report.add(Level::good, "services", std::to_string(services) + " can be found");
  } else {
    report.add(Level::limited, "services", listed.text(), "see docs/troubleshooting.md");
  }
  check_socket(report, *settings);
  check_multicast(report, *settings);
  check_zookeeper(report, *settings);
}

}  // namespace

}  // namespace ripc::internal::capi

extern "C" ripc_status ripc_diagnose(const ripc_context_options* options, ripc_finding_visitor visitor, void* user) {
  using namespace ripc::internal::capi;  // NOLINT: the C functions stand outside of any namespace
  return guarded([&]() -> ripc::internal::Status {
    if (visitor == nullptr) return RIPC_INVALID_ARGUMENT;
    ripc_context_options effective;
    ripc_context_options_init(&effective);
    if (!read_sized(options, effective)) return bad_size("ripc_context_options");
    Report report(visitor, user);
    check_shared_memory(report);
    check_huge_pages(report);
    check_barrier(report);
    check_process_memory(report);
    check_limits(report);
#ifdef RIPC_WITH_VERBS
    check_verbs(report);
#endif
    check_environment(report);
    check_context(report, effective);
    return {};
  });
}
