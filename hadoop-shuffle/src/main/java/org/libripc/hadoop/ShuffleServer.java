// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import javax.crypto.SecretKey;
import org.apache.hadoop.mapred.IndexRecord;
import org.libripc.Outgoing;
import org.libripc.RegisteredBuffer;
import org.libripc.Ripc;
import org.libripc.RipcBuilder;
import org.libripc.RipcException;
import org.libripc.Service;
import org.libripc.Status;
import org.libripc.Ticket;
import org.libripc.rpc.Request;
import org.libripc.rpc.Rpc;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Answers reducers' calls. One thread runs the endpoint and checks requests; readers of the local
 * directories look for outputs and read them.
 */
final class ShuffleServer implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(ShuffleServer.class);

  /** What the NodeManager knows of jobs. */
  interface Jobs {
    /** The key of the job's token, or null. */
    SecretKey key(String job);

    /** The user whose job it is, or null. */
    String user(String job);
  }

  /** A request that was checked. */
  private record Checked(String job, SecretKey key, byte[] mac, Request request) {}

  private final Jobs jobs;
  private final MapOutputs outputs;
  private final DirectoryReaders readers;
  private final Sessions sessions;
  private final HandlerMetrics metrics;
  private final Semaphore underWay; // bytes
  private final Ripc ripc;
  final Service service;
  private final Rpc rpc;
  private final Thread thread;

  /**
   * @param mostUnderWay bytes that were read and have not come to their reducers
   * @throws RipcException, UnsatisfiedLinkError if libripc cannot be used, with the reason
   */
  ShuffleServer(
      RipcBuilder builder,
      String name,
      Jobs jobs,
      MapOutputs outputs,
      DirectoryReaders readers,
      Sessions sessions,
      int mostUnderWay,
      HandlerMetrics metrics) {
    this.jobs = jobs;
    this.outputs = outputs;
    this.readers = readers;
    this.sessions = sessions;
    underWay = new Semaphore(mostUnderWay);
    this.metrics = metrics;
    ripc = builder.open();
    try {
      // Other hosts may still know a NodeManager that was killed. There is only one at an address.
      service = ripc.service().name(name).takeover().register();
      rpc = Rpc.open(service);
    } catch (Throwable failed) {
      ripc.close();
      throw failed;
    }
    rpc.on(Wire.BEGIN, this::begin).on(Wire.SIZES, this::sizes).on(Wire.DATA, this::data);
    thread = new Thread(this::serve, "ripc-shuffle");
    thread.setDaemon(true);
    thread.start();
  }

  private void serve() {
    try {
      rpc.serve();
    } catch (InterruptedException | RipcException.Closed end) {
      // close() was called
    } catch (RuntimeException | Error problem) {
      LOG.error("The shuffle over libripc ends; reducers go on over HTTP", problem);
      service.close(); // so that they do not wait for it
    }
  }

  // ---- Checking: in the thread of the endpoint, without touching a disk ----

  private void begin(Request request) {
    try {
      ByteBuffer bytes = bytesOf(request);
      Wire.Begin begin = Wire.decodeBegin(bytes);
      SecretKey key = jobs.key(begin.job());
      if (key == null || !Wire.isSealed(bytes, key)) throw new IOException("a wrong token");
      byte[] session = sessions.begin(begin.job(), begin.nonce());
      if (session == null) {
        unknown(request);
        return;
      }
      metrics.sessions.incr();
      reply(request, Wire.OK, key, Wire.macOf(bytes), ByteBuffer.wrap(session));
    } catch (IOException | IllegalStateException problem) {
      refuse(request, problem);
    }
  }

  private static ByteBuffer bytesOf(Request request) throws IOException {
    // The size is limited because this copies a long request.
    if (request.itemCount() != 1 || request.size(0) > Wire.LONGEST_REQUEST)
      throw new IOException("a request of a wrong size");
    return request.item(0);
  }

  private void refuse(Request request, Exception problem) {
    metrics.refused.incr();
    LOG.warn("Request of {} refused: {}", request.source(), problem.getMessage());
    request.reply(Wire.REFUSED, new Outgoing());
  }

  /** Null if the request has been answered. */
  private Checked check(Request request, int method, ByteBuffer bytes) throws IOException {
    Wire.Head head = Wire.decodeHead(bytes, method);
    String job = sessions.jobOf(head.session());
    if (job == null) return unknown(request);
    SecretKey key = jobs.key(job);
    if (key == null || !Wire.isSealed(bytes, key)) throw new IOException("a wrong token");
    if (!sessions.isNew(head.session(), head.number())) return unknown(request);
    return new Checked(job, key, Wire.macOf(bytes), request);
  }

  private Checked unknown(Request request) {
    metrics.replayed.incr();
    request.reply(Wire.NO_SESSION, new Outgoing());
    return null;
  }

  private void sizes(Request request) {
    try {
      ByteBuffer bytes = bytesOf(request);
      Checked checked = check(request, Wire.SIZES, bytes);
      if (checked == null) return;
      Wire.Sizes wanted = Wire.decodeSizes(bytes);
      for (String attempt : wanted.attempts()) checkJob(checked.job, attempt);
      pass(DirectoryReaders.UNKNOWN, checked, kept -> answerSizes(kept, wanted));
    } catch (IOException | IllegalStateException problem) {
      refuse(request, problem);
    }
  }

  private void data(Request request) {
    try {
      ByteBuffer bytes = bytesOf(request);
      Checked checked = check(request, Wire.DATA, bytes);
      if (checked == null) return;
      Wire.Data wanted = Wire.decodeData(bytes);
      long total = 0;
      for (Wire.Range range : wanted.ranges()) {
        checkJob(checked.job, range.attempt());
        total += range.length();
      }
      if (request.returnCount() != 1 || request.returnSize(0) < total)
        throw new IOException("there is no room for the bytes");
      MapOutputs.Output first = outputs.known(wanted.ranges().get(0).attempt());
      if (first != null) {
        pass(first.directory(), checked, kept -> answerData(kept, wanted));
      } else {
        pass(DirectoryReaders.UNKNOWN, checked, kept -> findForData(kept, wanted));
      }
    } catch (IOException | IllegalStateException problem) {
      refuse(request, problem);
    }
  }

  private static void checkJob(String job, String attempt) throws IOException {
    if (!Wire.isOf(job, attempt)) throw new IOException("an output of another job");
  }

  private interface Task {
    void run(Checked checked);
  }

  private void pass(int directory, Checked checked, Task task) {
    Request kept = checked.request.keep();
    execute(directory, new Checked(checked.job, checked.key, checked.mac, kept), task);
  }

  private void execute(int directory, Checked checked, Task task) {
    try {
      readers.execute(directory, () -> run(checked, task));
    } catch (RejectedExecutionException full) {
      turnAway(checked.request);
    }
  }

  /** Refuses a request, which the reducer then repeats. */
  private void turnAway(Request request) {
    metrics.busy.incr();
    request.refuse(Status.AGAIN);
  }

  // ---- Answering: in the readers ----

  private void run(Checked checked, Task task) {
    try {
      // Nobody waits for it any more.
      if (checked.request.timeLeft(TimeUnit.NANOSECONDS) == 0) {
        checked.request.refuse(Status.TIMEOUT);
        return;
      }
      task.run(checked);
      metrics.knownOutputs.set(outputs.count());
      metrics.openFiles.set(outputs.openFiles());
    } catch (RuntimeException problem) {
      LOG.warn("Cannot answer {}: {}", checked.request.source(), problem.toString());
      if (!checked.request.isEnded()) checked.request.drop(Status.CANCELLED);
    } finally {
      // It may have ended since the task looked, and the task may have opened its files again.
      if (jobs.user(checked.job) == null) outputs.endJob(checked.job);
    }
  }

  private MapOutputs.Output find(String job, String attempt) throws IOException {
    String user = jobs.user(job);
    if (user == null) throw new IOException("the job has ended");
    return outputs.find(job, user, attempt);
  }

  private void answerSizes(Checked checked, Wire.Sizes wanted) {
    List<Wire.Size> sizes = new ArrayList<>();
    for (String attempt : wanted.attempts()) {
      Wire.Size size = Wire.Size.NOT_THERE;
      try {
        MapOutputs.Output output = find(checked.job, attempt);
        IndexRecord part = output.part(wanted.head().reduce());
        if (part != null) size = new Wire.Size(part.rawLength, part.partLength, output.directory());
      } catch (IOException missing) {
        metrics.notThere.incr();
        LOG.warn("No output of {}: {}", attempt, missing.toString());
      }
      sizes.add(size);
    }
    metrics.sizeRequests.incr();
    reply(checked.request, Wire.OK, checked.key, checked.mac, Wire.encodeSizes(sizes));
  }

  /** Finds the directory of the bytes, so that its own readers read them. */
  private void findForData(Checked checked, Wire.Data wanted) {
    try {
      int directory = find(checked.job, wanted.ranges().get(0).attempt()).directory();
      execute(directory, checked, kept -> answerData(kept, wanted));
    } catch (IOException missing) {
      lacks(checked, wanted, 0, missing);
    }
  }

  private void answerData(Checked checked, Wire.Data wanted) {
    int total = wanted.ranges().stream().mapToInt(Wire.Range::length).sum();
    RegisteredBuffer piece = lease(Math.max(1, total));
    if (piece == null) {
      turnAway(checked.request);
      return;
    }
    Ticket ticket = null;
    try (piece) {
      ByteBuffer bytes = piece.buffer();
      if (!read(checked, wanted, bytes)) return;
      bytes.flip();
      ByteBuffer[] says = Wire.saysOf(wanted.isSealed(), bytes);
      byte[] mac = Wire.sealAnswer(checked.key, checked.mac, says);
      Outgoing answer = new Outgoing().addReturn(bytes, 0).add(ByteBuffer.wrap(mac));
      ticket = send(checked.request, answer);
      metrics.dataRequests.incr();
      metrics.bytes.incr(total);
    } finally {
      // The memory is in use until the reducer has the bytes.
      if (ticket == null) {
        underWay.release(piece.size());
      } else {
        ticket.whenComplete((done, problem) -> underWay.release(piece.size()));
      }
    }
  }

  /** Memory for an answer; null if the limit of what may be under way is reached. */
  private RegisteredBuffer lease(int bytes) {
    if (!underWay.tryAcquire(bytes)) return null;
    try {
      return ripc.lease(bytes);
    } catch (RipcException problem) {
      underWay.release(bytes);
      if (problem.status() == Status.NO_MEMORY) return null;
      throw problem;
    }
  }

  /** False if an output cannot be read; the reducer has been told which one. */
  private boolean read(Checked checked, Wire.Data wanted, ByteBuffer bytes) {
    for (int index = 0; index < wanted.ranges().size(); ++index) {
      Wire.Range range = wanted.ranges().get(index);
      try {
        MapOutputs.Output output = find(checked.job, range.attempt());
        IndexRecord part = output.part(wanted.head().reduce());
        if (part == null || range.offset() + range.length() > part.partLength)
          throw new IOException("a range behind the end");
        bytes.limit(bytes.position() + range.length());
        outputs.read(output, part.startOffset + range.offset(), bytes);
      } catch (IOException missing) {
        lacks(checked, wanted, index, missing);
        return false;
      }
    }
    return true;
  }

  private void lacks(Checked checked, Wire.Data wanted, int index, IOException missing) {
    metrics.notThere.incr();
    String attempt = wanted.ranges().get(index).attempt();
    LOG.warn("Cannot serve {}: {}", attempt, missing.toString());
    ByteBuffer answer = ByteBuffer.allocate(4).putInt(0, index);
    reply(checked.request, Wire.NOT_THERE, checked.key, checked.mac, answer);
  }

  private void reply(Request request, int code, SecretKey key, byte[] mac, ByteBuffer answer) {
    ByteBuffer sealed = ByteBuffer.wrap(Wire.sealAnswer(key, mac, answer));
    request.reply(code, new Outgoing().add(answer).add(sealed));
  }

  /** Waits for room, as long as the caller waits for the answer. */
  private Ticket send(Request request, Outgoing answer) {
    while (true) {
      try {
        return request.reply(answer);
      } catch (RipcException.NoRoom full) {
        if (request.timeLeft(TimeUnit.NANOSECONDS) == 0) throw full;
        try {
          service.waitRoom(request.source(), 100, TimeUnit.MILLISECONDS);
        } catch (InterruptedException closing) {
          Thread.currentThread().interrupt();
          throw full;
        }
      }
    }
  }

  /** Forgets what was known of a job, when its token is gone. */
  void endJob(String job) {
    sessions.endJob(job);
    outputs.endJob(job);
  }

  @Override
  public void close() {
    try {
      readers.close();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
    rpc.close();
    ripc.close();
    outputs.close();
  }
}
