// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;
import static org.libripc.jetty.Handlers.handler;
import static org.libripc.jetty.Handlers.ok;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.eclipse.jetty.io.Connection;
import org.eclipse.jetty.io.EndPoint;
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.Peer;
import org.libripc.Ripc;
import org.libripc.RipcBuilder;
import org.libripc.ServiceId;

/** Who may connect, and what happens to those who may not. */
@Tag("jna")
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"shm", "socket"})
class AccessTest extends HttpPairTest {
  private RipcBuilder contextOptions = Ripc.builder();

  @Override
  RipcBuilder options() {
    return contextOptions;
  }

  private static void signal(Process process, String name) {
    try {
      new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).start().waitFor();
    } catch (IOException | InterruptedException problem) {
      throw new IllegalStateException(problem);
    }
  }

  @Test
  void onlyServicesThatAreAdmittedMayConnect() throws Exception {
    List<ServiceId> asked = new ArrayList<>();
    ServiceId friend = ServiceId.ofName("a friend");
    start(
        ok(),
        changed ->
            ((RipcConnector) changed)
                .setAccess(
                    id -> {
                      asked.add(id);
                      return id.equals(friend);
                    }));
    ExecutionException refused = assertThrows(ExecutionException.class, () -> request("/").send());
    assertTrue(refused.getMessage().contains("does not admit"), refused.getMessage());
    assertEquals(List.of(ripcClient.getServiceId()), asked);
    ripcClient.stop();
    ripcClient.setServiceName("a friend");
    ripcClient.start();
    assertEquals(200, request("/").send().getStatus());
  }

  // Both sides have the same identity: this user's.
  private void useTrustFile(String line) throws Exception {
    Path identity = directory.resolve("identity");
    Files.createFile(
        identity,
        PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    // RFC 8032, section 7.1, test 1.
    Files.writeString(
        identity,
        "secret ed25519:9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60\n");
    Path trust = directory.resolve("trust");
    Files.writeString(
        trust,
        "me ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a holds=* "
            + line
            + "\n");
    contextOptions = Ripc.builder().identityFile(identity).trustFile(trust);
  }

  private int user() throws IOException {
    return (int) Files.getAttribute(directory, "unix:uid");
  }

  @Test
  void aRequestSaysWhichUserSentIt() throws Exception {
    useTrustFile("user=" + user());
    aRequestSaysWhoSentIt();
  }

  /** As between hosts: the trust file names no user. */
  @Test
  void overSocketsARequestSaysWhoHasProvenItsKey() throws Exception {
    assumeTrue(over.equals("socket"), "shared memory proves users");
    useTrustFile("");
    aRequestSaysWhoSentIt();
  }

  private void aRequestSaysWhoSentIt() throws Exception {
    AtomicReference<Object> seen = new AtomicReference<>();
    start(
        handler(
            (request, response, callback) -> {
              seen.set(request.getAttribute(RipcConnector.PEER_ATTRIBUTE));
              callback.succeeded();
            }),
        changed -> ((RipcConnector) changed).setIdentityRequired(true));
    assertEquals(200, request("/").send().getStatus());
    assertEquals(new Peer("me", OptionalInt.of(user())), seen.get());
  }

  @Test
  void clientsWithoutARequiredIdentityAreRefused() throws Exception {
    start(ok(), changed -> ((RipcConnector) changed).setIdentityRequired(true));
    ExecutionException refused = assertThrows(ExecutionException.class, () -> request("/").send());
    assertTrue(refused.getMessage().contains("does not admit"), refused.getMessage());
  }

  @Test
  void aPolicyForPeersThatFailsHarmsNobodyElse() throws Exception {
    AtomicReference<Runnable> first =
        new AtomicReference<>(
            () -> {
              throw new IllegalStateException("as a test wants it");
            });
    start(
        ok(),
        changed ->
            ((RipcConnector) changed)
                .setPeerAccess(
                    peer -> {
                      Runnable failing = first.getAndSet(null);
                      if (failing != null) failing.run();
                      return true;
                    }));
    assertThrows(ExecutionException.class, () -> request("/").send());
    assertEquals(200, request("/").send().getStatus());
  }

  @Test
  void aPolicyThatFailsHarmsNobodyElse() throws Exception {
    failsOnce(
        () -> {
          throw new IllegalStateException("as a test wants it");
        });
  }

  @Test
  void anErrorInAPolicyHarmsNobodyElse() throws Exception {
    failsOnce(
        () -> {
          throw new LinkageError("as a test wants it");
        });
  }

  private void failsOnce(Runnable failure) throws Exception {
    AtomicReference<Runnable> first = new AtomicReference<>(failure);
    start(
        ok(),
        changed ->
            ((RipcConnector) changed)
                .setAccess(
                    id -> {
                      Runnable failing = first.getAndSet(null);
                      if (failing != null) failing.run();
                      return true;
                    }));
    assertThrows(ExecutionException.class, () -> request("/").send());
    assertEquals(200, request("/").send().getStatus());
  }

  @Test
  void aConnectionThatCannotBeMadeIsRefusedAtOnce() throws Exception {
    startServer(
        ok(),
        changed ->
            changed.setConnectionFactories(
                List.of(
                    new HttpConnectionFactory() {
                      @Override
                      public Connection newConnection(Connector connector, EndPoint endPoint) {
                        throw new IllegalStateException("no connection");
                      }
                    })));
    ExecutionException refused = assertThrows(ExecutionException.class, this::raw);
    assertTrue(refused.getMessage().contains("given up"), refused.getMessage());
    assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()));
  }

  @Test
  void connectionsAreLimited() throws Exception {
    startServer(ok(), changed -> ((RipcConnector) changed).setMaxConnections(2));
    RawConnection first = raw();
    RawConnection second = raw();
    ExecutionException refused = assertThrows(ExecutionException.class, this::raw);
    assertTrue(refused.getMessage().contains("as many connections"), refused.getMessage());
    first.close();
    assertTrue(eventually(() -> connector.getConnectedEndPoints().size() == 1));
    raw().close();
    second.close();
  }

  // Stops another process while the connector is asked whether that process may connect. The answer
  // is `admitted`; `check` runs while the process is stopped.
  private void withAStoppedClient(
      boolean admitted, Consumer<RipcConnector> change, Executable check) throws Throwable {
    contextOptions = Ripc.builder().resolveTimeout(3 * LIMIT, TimeUnit.SECONDS);
    CompletableFuture<Process> process = new CompletableFuture<>();
    CountDownLatch asked = new CountDownLatch(1);
    Set<ServiceId> friends = ConcurrentHashMap.newKeySet();
    start(
        ok(),
        changed -> {
          RipcConnector ripc = (RipcConnector) changed;
          change.accept(ripc);
          ripc.setAccess(
              id -> {
                if (friends.contains(id)) return true;
                signal(process.join(), "STOP");
                asked.countDown();
                return admitted;
              });
        });
    friends.add(ripcClient.getServiceId());
    process.complete(fetcher("/ 1 1 0 any\n"));
    try {
      assertTrue(asked.await(LIMIT, TimeUnit.SECONDS), "it connects");
      check.execute();
    } finally {
      process.join().destroyForcibly().waitFor();
    }
  }

  @Test
  void connectionsThatAreBeingAcceptedCountForTheLimit() throws Throwable {
    withAStoppedClient(
        true,
        connector -> connector.setMaxConnections(1),
        () -> {
          ExecutionException refused =
              assertThrows(ExecutionException.class, () -> request("/").send());
          assertTrue(refused.getMessage().contains("as many connections"), refused.getMessage());
        });
    assertTrue(eventually(() -> answers()), "there is room when it is given up");
  }

  private boolean answers() {
    try {
      return request("/").send().getStatus() == 200;
    } catch (Exception refused) {
      return false;
    }
  }

  @Test
  void aStoppedClientThatIsRefusedHoldsUpNobodyElse() throws Throwable {
    withAStoppedClient(
        false, connector -> {}, () -> assertEquals(200, request("/").send().getStatus()));
  }
}
