// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

/**
 * Functions of the C library that copy memory, and that wait on descriptors, which Java does not
 * offer. The binding registers the native methods.
 */
public final class LibC {
  private LibC() {}

  /** A system call that has failed. */
  public static final class Failure extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** What is wrong. */
    private final int number;

    private Failure(int number) {
      super("[" + number + "] " + Binding.get().text(strerror(number)));
      this.number = number;
    }

    /** The error number. */
    public int number() {
      return number;
    }
  }

  public static final int EPOLL_CLOEXEC = 02000000;
  public static final int EPOLLIN = 1;
  public static final int EPOLLET = 1 << 31;
  public static final int EPOLL_CTL_ADD = 1;
  public static final int EPOLL_CTL_DEL = 2;
  public static final int EPOLL_CTL_MOD = 3;
  public static final int EFD_CLOEXEC = 02000000;
  public static final int EFD_NONBLOCK = 04000;
  public static final int EINTR = 4;
  public static final int EFAULT = 14;
  public static final int EEXIST = 17;

  private static final long VECTOR = 16; // struct iovec: an address and a size
  private static final Spares<NativeBlock> VECTORS =
      new Spares<>(() -> new NativeBlock((int) (2 * VECTOR)));

  /** The result of a call; a {@link Failure} if it is negative. */
  static int checked(int result) {
    if (result < 0) throw new Failure(Binding.get().lastErrorNumber());
    return result;
  }

  /**
   * Copies memory that may be gone, such as that of a mapped file that is shorter now. In that case
   * it returns false, and no signal is raised. The kernel copies, and has then copied the part
   * before the gap.
   *
   * @throws Failure if this process may not read itself in this way
   */
  public static boolean copySafely(long to, long from, long size) {
    NativeBlock vectors = VECTORS.take();
    try {
      return copySafely(to, from, size, vectors);
    } finally {
      VECTORS.giveBack(vectors);
    }
  }

  private static boolean copySafely(long to, long from, long size, NativeBlock vectors) {
    long moved = 0;
    while (moved < size) {
      vectors.bytes.putLong(0, to + moved).putLong(8, size - moved);
      vectors.bytes.putLong(16, from + moved).putLong(24, size - moved);
      int process = (int) ProcessHandle.current().pid();
      long part = process_vm_readv(process, vectors.address, 1, vectors.address + VECTOR, 1, 0);
      if (part == 0) return false;
      if (part < 0) {
        int problem = Binding.get().lastErrorNumber();
        if (problem == EFAULT) return false;
        throw new Failure(problem);
      }
      moved += part;
    }
    return true;
  }

  static native int epoll_create1(int flags);

  static native int epoll_ctl(int epoll, int operation, int descriptor, long event);

  static native int epoll_wait(int epoll, long events, int most, int milliseconds);

  static native int eventfd(int value, int flags);

  static native long write(int descriptor, long data, long size);

  static native int close(int descriptor);

  static native long memcpy(long to, long from, long size);

  static native long strlen(long text);

  static native long strerror(int number);

  static native long process_vm_readv(
      int process, long here, long hereCount, long there, long thereCount, long flags);
}
