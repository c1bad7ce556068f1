// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

/** The binding of this JVM, loaded when it is first needed. */
public final class Binding {
  private static volatile NativeBinding loaded;
  private static UnsatisfiedLinkError failure;

  private Binding() {}

  /**
   * @throws UnsatisfiedLinkError at each call, if a library does not load; says why and what to
   *     install
   */
  public static NativeBinding get() {
    NativeBinding binding = loaded;
    return binding == null ? load() : binding;
  }

  private static synchronized NativeBinding load() {
    if (failure != null) {
      UnsatisfiedLinkError again = new UnsatisfiedLinkError(failure.getMessage());
      again.initCause(failure);
      throw again;
    }
    if (loaded == null) {
      try {
        loaded = NativeLoader.load();
      } catch (UnsatisfiedLinkError problem) {
        failure = problem;
        throw problem;
      }
    }
    return loaded;
  }
}
