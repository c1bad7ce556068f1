// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import com.sun.jna.LastErrorException;
import com.sun.jna.Native;

/**
 * The functions of the C library that wait on descriptors, which Java does not offer, and memcpy.
 */
public final class LibC {
  private LibC() {}

  static {
    Native.register(LibC.class, "c");
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
  public static final int EEXIST = 17;

  public static native int epoll_create1(int flags) throws LastErrorException;

  public static native int epoll_ctl(int epoll, int operation, int descriptor, long event)
      throws LastErrorException;

  public static native int epoll_wait(int epoll, long events, int most, int milliseconds)
      throws LastErrorException;

  public static native int eventfd(int value, int flags) throws LastErrorException;

  public static native long write(int descriptor, long data, long size) throws LastErrorException;

  public static native int close(int descriptor);

  static native long memcpy(long to, long from, long size);
}
