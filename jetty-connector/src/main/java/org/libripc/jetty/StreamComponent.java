// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.io.IOException;
import java.util.concurrent.Executor;
import org.eclipse.jetty.util.component.ContainerLifeCycle;
import org.eclipse.jetty.util.component.DumpableCollection;
import org.eclipse.jetty.util.thread.Scheduler;
import org.eclipse.jetty.util.thread.ThreadPoolBudget;
import org.libripc.stream.StreamService;
import org.libripc.stream.StreamServiceBuilder;

/** A {@link StreamService} as a component of Jetty, from start to stop. */
final class StreamComponent extends ContainerLifeCycle {
  private final StreamServiceBuilder builder;
  private final Executor executor;
  private final Scheduler scheduler;
  private ThreadPoolBudget.Lease lease;
  private volatile StreamService streams;

  StreamComponent(StreamServiceBuilder builder, Executor executor, Scheduler scheduler) {
    this.builder = builder;
    this.executor = executor;
    this.scheduler = scheduler;
  }

  /** Null before its start. */
  StreamService streams() {
    return streams;
  }

  @Override
  protected void doStart() throws Exception {
    lease = ThreadPoolBudget.leaseFrom(executor, this, StreamService.RECEIVING_THREADS);
    try {
      streams = builder.executor(new JettyExecutor(executor, scheduler)).start();
    } catch (Throwable problem) {
      lease.close();
      throw problem;
    }
    super.doStart();
  }

  @Override
  protected void doStop() throws Exception {
    if (streams != null) streams.close();
    super.doStop();
    if (lease != null) lease.close();
  }

  @Override
  public void dump(Appendable out, String indent) throws IOException {
    if (streams == null) {
      dumpObjects(out, indent);
    } else {
      dumpObjects(out, indent, streams, new DumpableCollection("connections", streams.streams()));
    }
  }
}
