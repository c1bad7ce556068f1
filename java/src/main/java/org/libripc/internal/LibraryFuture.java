// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/** A future that only the library completes. */
public abstract class LibraryFuture<T> extends CompletableFuture<T> {
  private static final String REASON = "only the library completes it";

  /** Completes the future, unless it is complete. */
  protected final boolean end(T value) {
    return super.complete(value);
  }

  /** Completes the future with a failure, unless it is complete. */
  protected final boolean endExceptionally(Throwable problem) {
    return super.completeExceptionally(problem);
  }

  /** Does nothing: only the library completes it. */
  @Override
  public final boolean complete(T value) {
    return false;
  }

  /** Does nothing: only the library completes it. */
  @Override
  public final boolean completeExceptionally(Throwable problem) {
    return false;
  }

  /** Does nothing: only the library completes it. */
  @Override
  public final CompletableFuture<T> completeAsync(
      Supplier<? extends T> supplier, Executor executor) {
    return this;
  }

  /** Not supported. */
  @Override
  public final void obtrudeValue(T value) {
    throw new UnsupportedOperationException(REASON);
  }

  /** Not supported. */
  @Override
  public final void obtrudeException(Throwable problem) {
    throw new UnsupportedOperationException(REASON);
  }

  /** Dependents are plain futures. */
  @Override
  public final <U> CompletableFuture<U> newIncompleteFuture() {
    return new CompletableFuture<>();
  }
}
