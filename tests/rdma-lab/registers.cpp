// SPDX-License-Identifier: Apache-2.0
// Runs in a guest of the lab: vector registers keep their values while signals are handled. AVX-512 where the processor
// has it, else AVX. Exit status 1 and a line if a register does not.
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

namespace {

constexpr int kSignals = 200;

using Register = std::array<std::uint64_t, 8>;

volatile sig_atomic_t signals = 0;
bool wide = false;

// Each writes the value to all parts of a register, goes on for a while, and reads the register.

__attribute__((target("avx512f"))) void hold_in_zmm(std::uint64_t value, Register& found) {
  asm volatile(
      "vpbroadcastq %0, %%zmm20\n\t"
      "mov $100000, %%ecx\n"
      "1:\n\t"
      "dec %%ecx\n\t"
      "jnz 1b\n\t"
      "vmovdqu64 %%zmm20, (%1)\n\t"
      :
      : "r"(value), "r"(found.data())
      : "ecx", "xmm20", "cc", "memory");
}

__attribute__((target("avx"))) void hold_in_ymm(std::uint64_t value, Register& found) {
  const Register whole = {value, value, value, value};
  asm volatile(
      "vmovdqu (%0), %%ymm7\n\t"
      "mov $100000, %%ecx\n"
      "1:\n\t"
      "dec %%ecx\n\t"
      "jnz 1b\n\t"
      "vmovdqu %%ymm7, (%1)\n\t"
      :
      : "r"(whole.data()), "r"(found.data())
      : "ecx", "xmm7", "cc", "memory");
}

// Overwrites the registers in which the interrupted code keeps its values.
__attribute__((target("avx512f"))) void spoil_zmm() { asm volatile("vpxorq %%zmm20, %%zmm20, %%zmm20" ::: "xmm20"); }
__attribute__((target("avx"))) void spoil_ymm() { asm volatile("vxorps %%ymm7, %%ymm7, %%ymm7" ::: "xmm7"); }

void handle(int) {
  wide ? spoil_zmm() : spoil_ymm();
  signals = signals + 1;
}

}  // namespace

int main() {
  wide = __builtin_cpu_supports("avx512f") != 0;
  if (!wide && __builtin_cpu_supports("avx") == 0) {
    std::puts("this processor has neither AVX-512 nor AVX");
    return 1;
  }
  struct sigaction action {};
  action.sa_handler = handle;
  ::sigaction(SIGALRM, &action, nullptr);
  const itimerval period{{0, 2000}, {0, 2000}};
  ::setitimer(ITIMER_REAL, &period, nullptr);
  for (std::uint64_t value = 1; signals < kSignals; ++value) {
    Register found{};
    wide ? hold_in_zmm(value, found) : hold_in_ymm(value, found);
    const auto parts = found.begin() + (wide ? 8 : 4);
    if (const auto wrong = std::find_if(found.begin(), parts, [=](auto part) { return part != value; });
        wrong != parts) {
      std::printf("a %s register lost its value in one of %d signals: %llx instead of %llx\n", wide ? "zmm" : "ymm",
                  static_cast<int>(signals), static_cast<unsigned long long>(*wrong),
                  static_cast<unsigned long long>(value));
      return 1;
    }
  }
  std::puts(wide ? "AVX-512 registers keep their values" : "AVX registers keep their values");
  return 0;
}
