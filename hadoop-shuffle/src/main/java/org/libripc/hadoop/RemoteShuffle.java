// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.security.SecureRandom;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import javax.crypto.SecretKey;
import org.apache.hadoop.mapred.JobConf;
import org.libripc.Ripc;
import org.libripc.RipcException;
import org.libripc.rpc.CallOptions;
import org.libripc.rpc.Rpc;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A reducer's calls to NodeManagers. The first call opens the context, because a job on one host
 * needs none. All threads.
 */
final class RemoteShuffle implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(RemoteShuffle.class);

  private final JobConf conf;
  private final String job;
  private final SecretKey key;
  private final long timeout;
  private final long retry;
  private final SecureRandom random = new SecureRandom();
  private final Map<String, RemoteHost> hosts = new ConcurrentHashMap<>();
  private final int pieceBytes;
  private final int pieces;
  private final DataSeal seal;
  // Guarded by this.
  private Ripc ripc;
  private Rpc rpc;
  private String problem; // why there is no context
  private boolean closed;

  RemoteShuffle(JobConf conf, String job, SecretKey key) {
    this.conf = conf;
    this.job = job;
    this.key = key;
    timeout = Keys.atLeast(1, conf, Keys.TIMEOUT, 30_000);
    retry = Keys.atLeast(1, conf, Keys.RETRY, 60_000);
    pieceBytes = Keys.pieceBytes(conf);
    pieces = Math.min(64, Keys.atLeast(1, conf, Keys.PIECES, 4));
    seal = DataSeal.of(conf, System.getenv());
  }

  int pieceBytes() {
    return pieceBytes;
  }

  /** How many pieces of each fetcher may be under way. */
  int pieces() {
    return pieces;
  }

  DataSeal seal() {
    return seal;
  }

  SecretKey key() {
    return key;
  }

  String job() {
    return job;
  }

  long timeoutMillis() {
    return timeout;
  }

  long retryMillis() {
    return retry;
  }

  byte[] nonce() {
    byte[] nonce = new byte[Wire.NONCE_BYTES];
    random.nextBytes(nonce);
    return nonce;
  }

  CallOptions options() {
    return new CallOptions().timeout(timeout, TimeUnit.MILLISECONDS);
  }

  RemoteHost host(String hostAndPort) {
    return hosts.computeIfAbsent(hostAndPort, name -> new RemoteHost(this, Wire.serviceName(name)));
  }

  synchronized Ripc ripc() throws IOException {
    open();
    return ripc;
  }

  synchronized Rpc rpc() throws IOException {
    open();
    return rpc;
  }

  private void open() throws IOException {
    if (closed) throw new IOException("the shuffle has ended");
    if (problem != null) throw new IOException(problem);
    if (rpc != null) return;
    try {
      ripc = Keys.builder(conf, Ripc.builder()).open();
      rpc = Rpc.open(ripc.register());
    } catch (RuntimeException | LinkageError failed) {
      problem = failed.toString();
      if (ripc != null) ripc.close();
      ripc = null;
      throw new IOException(problem, failed);
    }
    Rpc served = rpc;
    Thread thread = new Thread(() -> serve(served), "ripc-shuffle");
    thread.setDaemon(true);
    thread.start();
  }

  private static void serve(Rpc rpc) {
    try {
      rpc.serve();
    } catch (InterruptedException | RipcException.Closed end) {
      // close() was called
    } catch (RuntimeException | Error problem) {
      LOG.warn("Nothing more is fetched over libripc", problem);
      rpc.close(); // nobody would receive the ends of calls
    }
  }

  @Override
  public synchronized void close() {
    closed = true;
    if (rpc != null) rpc.close();
    if (ripc != null) ripc.close();
    rpc = null;
    ripc = null;
  }
}
