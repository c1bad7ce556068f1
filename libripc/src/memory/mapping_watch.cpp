// SPDX-License-Identifier: Apache-2.0
#include "memory/mapping_watch.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <system_error>

#include "base/event_signal.hpp"

namespace ripc::memory {

namespace {

// Linux 6.1: _IO(0xAA, 0). Not in all headers.
constexpr unsigned long kNewFromDevice = _IO(0xAA, 0x00);
constexpr const char* kDevice = "/dev/userfaultfd";
constexpr std::uint64_t kFeatures = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE;

// Before 5.19 a fork, or write protection that came and went, could exchange pages that a device uses without an event;
// what was looked at is 6.1.
bool kernel_is_new_enough() noexcept {
  utsname names{};
  if (::uname(&names) != 0) return false;
  const std::string_view release(names.release);  // such as 6.1.0-28-amd64
  unsigned major = 0;
  unsigned minor = 0;
  const char* const end = release.data() + release.size();
  const std::from_chars_result dot = std::from_chars(release.data(), end, major);
  if (dot.ec != std::errc{} || dot.ptr == end || *dot.ptr != '.') return false;
  if (std::from_chars(dot.ptr + 1, end, minor).ec != std::errc{}) return false;
  return major > 6 || (major == 6 && minor >= 1);
}

// With faults of the kernel on behalf of the application, which UFFD_USER_MODE_ONLY lacks: there a read(2) into a page
// that was just given back would fail.
int open_descriptor() noexcept {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  const auto fd = static_cast<int>(::syscall(SYS_userfaultfd, kFlags));
  if (fd >= 0 || errno != EPERM) return fd;
  const UniqueFd device(::open(kDevice, O_RDWR | O_CLOEXEC));
  if (!device) {
    errno = EPERM;
    return -1;
  }
  return ::ioctl(device.get(), kNewFromDevice, kFlags);
}

Status refused(int error) {
  switch (error) {
    case ENOSYS:
      return Status(RIPC_UNSUPPORTED,
                    "The kernel has no userfaultfd (CONFIG_USERFAULTFD), or a container's seccomp profile hides it: "
                    "lease buffers from the pool.");
    case EPERM:
      return Status(RIPC_PERMISSION,
                    "This process may not use userfaultfd: allow the user to open /dev/userfaultfd (a udev rule), set "
                    "`sysctl vm.unprivileged_userfaultfd=1`, or give it CAP_SYS_PTRACE; in a container its seccomp "
                    "profile must allow it too. Or lease buffers from the pool.");
    default:
      return system_error(error, "userfaultfd");
  }
}

Result<UniqueFd> open_watch(ForkGuard& guard) {
  if (!kernel_is_new_enough())
    return Status(RIPC_UNSUPPORTED,
                  "It takes Linux 6.1 or newer to tell when memory is unmapped: lease buffers from the pool.");
  UniqueFd fd = ForkGuard::open(guard, open_descriptor);
  if (!fd) return refused(errno);
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = kFeatures;
  if (::ioctl(fd.get(), UFFDIO_API, &api) != 0) return refused(errno);
  return fd;
}

uffdio_range range_of(const AddressRange& pages) noexcept { return {.start = pages.start, .len = pages.size()}; }

}  // namespace

// ---- Making --------------------------------------------------------------------------------------------------

Status MappingWatch::available() {
  ForkGuard guard;
  Result<UniqueFd> fd = open_watch(guard);
  if (!fd.ok()) return fd.status();
  guard.close(*fd);
  return {};
}

Result<std::unique_ptr<MappingWatch>> MappingWatch::create(Listener& listener) {
  ForkGuard guard;
  Result<UniqueFd> fd = open_watch(guard);
  if (!fd.ok()) return fd.status();
  std::unique_ptr<MappingWatch> watch(new MappingWatch(listener, std::move(*fd), std::move(guard)));
  Status status = watch->start();
  if (!status.ok()) return status;
  return watch;
}

MappingWatch::MappingWatch(Listener& listener, UniqueFd fd, ForkGuard guard) noexcept
    : listener_(listener), guard_(std::move(guard)), fd_(std::move(fd)) {}

Status MappingWatch::start() {
  void* const page = ::mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return system_error(errno, "mmap");
  probe_ = page;
  const AddressRange pages = pages_of(page, page_size());
  if (!make_resident(pages) || !add(pages)) return system_error(errno, "UFFDIO_REGISTER");
  stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_) return system_error(errno, "eventfd");
  // The application's signals are not for this thread.
  sigset_t all;
  sigset_t former;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &former);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &former, nullptr);
    return system_error(error.code().value(), "pthread_create", "raise `ulimit -u`");
  }
  pthread_sigmask(SIG_SETMASK, &former, nullptr);
  pthread_setname_np(thread_.native_handle(), "ripc-mappings");
  return {};
}

MappingWatch::~MappingWatch() {
  // While somebody reads what that causes.
  if (probe_ != nullptr) {
    remove(pages_of(probe_, page_size()));
    ::munmap(probe_, page_size());
  }
  if (thread_.joinable()) {
    signal_event(stop_.get());
    thread_.join();
  }
  // The kernel lets go whoever waits for an event, and forgets the ranges.
  guard_.close(fd_);
}

// ---- Ranges --------------------------------------------------------------------------------------------------

bool MappingWatch::add(const AddressRange& pages) noexcept {
  uffdio_register request{};
  request.range = range_of(pages);
  request.mode = UFFDIO_REGISTER_MODE_MISSING;
  return ::ioctl(fd_.get(), UFFDIO_REGISTER, &request) == 0;
}

void MappingWatch::remove(const AddressRange& pages) noexcept {
  uffdio_range range = range_of(pages);
  if (!pages.empty()) (void)::ioctl(fd_.get(), UFFDIO_UNREGISTER, &range);
}

// Filling a page is refused with EAGAIN from before a mapping of ours changes until its event was read. This page is
// there already, so nothing else can come of it.
bool MappingWatch::is_changing() const noexcept {
  uffdio_zeropage request{};
  request.range = range_of(pages_of(probe_, page_size()));
  request.mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE;
  return ::ioctl(fd_.get(), UFFDIO_ZEROPAGE, &request) == 0 || errno != EEXIST;
}

MappingWatch::State MappingWatch::unchanged(const AddressRange& pages) noexcept {
  // Pages that went without an event are not there: to come back they have to be touched, and that makes one.
  if (!is_resident(pages)) return State::changed;
  if (!is_changing()) return State::same;
  handle_events();
  return is_changing() ? State::unknown : State::same;
}

// ---- Events --------------------------------------------------------------------------------------------------

void MappingWatch::run() noexcept {
  std::array<pollfd, 2> waits{{{fd_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
  for (;;) {
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[1].revents != 0) return;
    const std::lock_guard lock(mutex_);
    handle_events();
  }
}

void MappingWatch::handle_events() noexcept {
  std::array<uffd_msg, 16> events;
  for (;;) {
    const ssize_t size = ::read(fd_.get(), events.data(), sizeof events);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    for (std::size_t index = 0; index < static_cast<std::size_t>(size) / sizeof events[0]; ++index) {
      const uffd_msg& event = events[index];
      switch (event.event) {
        case UFFD_EVENT_UNMAP:
          (void)listener_.changed({event.arg.remove.start, event.arg.remove.end});
          break;
        case UFFD_EVENT_REMOVE: {
          const AddressRange pages{event.arg.remove.start, event.arg.remove.end};
          (void)listener_.changed(pages);
          remove(pages);
          break;
        }
        case UFFD_EVENT_REMAP: {
          // The watch moves with the mapping.
          const AddressRange to{event.arg.remap.to, event.arg.remap.to + event.arg.remap.len};
          (void)listener_.changed({event.arg.remap.from, event.arg.remap.from + event.arg.remap.len});
          (void)listener_.changed(to);
          remove(to);
          break;
        }
        case UFFD_EVENT_PAGEFAULT:
          handle_fault(event.arg.pagefault.address & ~(page_size() - 1));
          break;
        default:
          break;
      }
    }
  }
}

// Somebody touches a page that is not there, and waits. It may be one that nobody has asked for: a mapping that was
// enlarged by mremap() is watched as a whole.
void MappingWatch::handle_fault(std::uintptr_t page) noexcept {
  const AddressRange pages{page, page + page_size()};
  const AddressRange free = listener_.changed(pages);
  remove(free.clipped_to(find_mapping(page).range));
  uffdio_range range = range_of(pages);
  if (::ioctl(fd_.get(), UFFDIO_UNREGISTER, &range) != 0) {
    // The kernel has no memory to split the mapping: then this page is filled, with what it would have been filled
    // with.
    uffdio_zeropage fill{};
    fill.range = range;
    (void)::ioctl(fd_.get(), UFFDIO_ZEROPAGE, &fill);
  }
  // If the watch had ended before, though after the fault, the end has woken nobody.
  (void)::ioctl(fd_.get(), UFFDIO_WAKE, &range);
}

}  // namespace ripc::memory
