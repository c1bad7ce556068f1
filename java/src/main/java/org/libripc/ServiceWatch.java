// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Reference;
import java.util.concurrent.atomic.AtomicLong;
import org.libripc.internal.NativeBlock;

/**
 * A service ID that is watched: {@link Ripc#watch}. Close it to stop the calls; closing its context
 * closes it too. A watch that is not closed is kept, because its watcher may be called. Any thread.
 */
public final class ServiceWatch implements AutoCloseable {
  private final RipcCore core;
  private final Runnable ended;
  private final long user;
  private final AtomicLong handle = new AtomicLong();
  private volatile boolean isClosed;

  /**
   * @param ended runs once, when it is closed
   */
  ServiceWatch(Ripc ripc, RipcCore core, ServiceId id, ServiceWatcher watcher, Runnable ended) {
    this.core = core;
    this.ended = ended;
    NativeBlock block = new NativeBlock(8);
    core.enter(); // until it is closed
    // A watch whose watcher may be called is not lost.
    user =
        Callbacks.addWatcher(
            (status, info) -> {
              watcher.changed(status, info);
              Reference.reachabilityFence(ripc);
            });
    int status =
        core.binding()
            .serviceWatch(core.handle(), id.value(), Callbacks.WATCH_ADDRESS, user, block.address);
    if (status != 0) {
      Callbacks.removeWatcher(user);
      RipcException problem = RipcException.ofLastCall(status);
      core.guard().leave();
      throw problem;
    }
    handle.set(block.bytes.getLong(0));
    core.watches().add(this);
    // The watcher or the end of the context may have closed it before this point.
    if (isClosed || core.guard().isClosed()) close();
  }

  /**
   * When it returns, the watcher is not running and never runs again. Inside the watcher, the
   * current run is the last.
   */
  @Override
  public void close() {
    isClosed = true;
    long closing = handle.getAndSet(0);
    if (closing == 0) return;
    core.watches().remove(this);
    core.binding().serviceUnwatch(closing);
    Callbacks.removeWatcher(user);
    core.guard().leave();
    ended.run();
  }
}
