// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.charset.StandardCharsets;
import java.util.Objects;
import org.libripc.internal.Binding;
import org.libripc.internal.NativeBlock;
import org.libripc.internal.Spares;

/**
 * Names a service, or a group of services, wherever it runs: 64 bits. Immutable; equal IDs are
 * {@link #equals}.
 *
 * <p>Programs that send often should keep the object instead of making it again: it would be the
 * only garbage of a send.
 */
public final class ServiceId implements Comparable<ServiceId> {
  /** The largest well-known number: 2^62 - 1. */
  public static final long WELL_KNOWN_MAX = (1L << 62) - 1;

  /** The largest number of a group: 2^61 - 1. */
  public static final long GROUP_NUMBER_MAX = (1L << 61) - 1;

  // Room for the ID, a name and its end. A program that sends by name makes an ID for each message.
  private static final int NAME_ROOM = 208;
  private static final Spares<NativeBlock> ARGUMENTS =
      new Spares<>(() -> new NativeBlock(8 + NAME_ROOM));

  private interface Hash {
    int apply(long name, long id);
  }

  private final long value;

  private ServiceId(long value) {
    this.value = value;
  }

  private static ServiceId of(String name, Hash hash) {
    byte[] text = checked(name).getBytes(StandardCharsets.UTF_8);
    if (text.length >= NAME_ROOM) return of(text, hash, new NativeBlock(8 + text.length + 1));
    NativeBlock block = ARGUMENTS.take();
    try {
      return of(text, hash, block);
    } finally {
      ARGUMENTS.giveBack(block);
    }
  }

  private static ServiceId of(byte[] text, Hash hash, NativeBlock block) {
    block.bytes.put(8, text).put(8 + text.length, (byte) 0);
    RipcException.check(hash.apply(block.address + 8, block.address));
    NativeBlock.keep(block);
    return new ServiceId(block.bytes.getLong(0));
  }

  /** The ID with these bits: of any kind; 0 is no ID. */
  public static ServiceId of(long value) {
    if (value == 0) throw new IllegalArgumentException("0 is never a service ID");
    return new ServiceId(value);
  }

  /**
   * The ID of a service with a name: 1 to 200 bytes of UTF-8 without '/' and control characters.
   */
  public static ServiceId ofName(String name) {
    return of(name, Binding.get()::idFromName);
  }

  /** The ID of a group with a name; the rules for names are those of services. */
  public static ServiceId ofGroup(String name) {
    return of(name, Binding.get()::groupIdFromName);
  }

  /** The ID of the group with a number from 0 to {@link #GROUP_NUMBER_MAX}. */
  public static ServiceId ofGroup(long number) {
    if (number < 0 || number > GROUP_NUMBER_MAX) {
      throw new IllegalArgumentException(number + " is no group number: take 0 to 2^61 - 1");
    }
    return new ServiceId((1L << 62) | number);
  }

  // A NUL, which would end the name in C, must not reach native code, nor characters that UTF-8
  // cannot encode.
  private static String checked(String name) {
    if (Objects.requireNonNull(name, "name").indexOf('\0') >= 0) {
      throw new IllegalArgumentException("a name has a character 0: leave it out");
    }
    for (int at = 0; at < name.length(); ++at) {
      if (!Character.isSurrogate(name.charAt(at))) continue;
      if (at + 1 == name.length()
          || !Character.isSurrogatePair(name.charAt(at), name.charAt(at + 1)))
        throw new IllegalArgumentException(
            "a name has half of a surrogate pair, which is no character: leave it out");
      ++at;
    }
    return name;
  }

  /** The 64 bits. */
  public long value() {
    return value;
  }

  /** Whether it names a group. */
  public boolean isGroup() {
    return value >>> 62 == 1;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof ServiceId && ((ServiceId) other).value == value;
  }

  @Override
  public int hashCode() {
    return Long.hashCode(value);
  }

  @Override
  public int compareTo(ServiceId other) {
    return Long.compareUnsigned(value, other.value);
  }

  /** 0x and 16 digits. */
  @Override
  public String toString() {
    return String.format("0x%016x", value);
  }
}
