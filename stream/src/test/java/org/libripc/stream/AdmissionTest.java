// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.ConnectException;
import java.net.SocketTimeoutException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.Service;

/** Who may open a stream, and how many. */
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"shm", "socket"})
class AdmissionTest extends StreamFixture {
  @Test
  void aClientNotAdmittedIsRefused() throws Exception {
    serve(builder -> builder.access(id -> false));
    Throwable refused = failure(client.connect(SERVER, LIMIT, TimeUnit.SECONDS));
    assertInstanceOf(ConnectException.class, refused);
    assertTrue(refused.getMessage().contains("does not admit"), refused.getMessage());
  }

  @Test
  void aServiceWithoutAnAcceptorRefuses() throws Exception {
    serve(builder -> builder.acceptor(null));
    assertInstanceOf(
        ConnectException.class, failure(client.connect(SERVER, LIMIT, TimeUnit.SECONDS)));
  }

  @Test
  void moreStreamsThanTheLimitAreRefused() throws Exception {
    serve(builder -> builder.maxStreams(1));
    try (ByteStream first = connect()) {
      assertInstanceOf(
          ConnectException.class, failure(client.connect(SERVER, LIMIT, TimeUnit.SECONDS)));
      assertTrue(first.isOpen());
    }
  }

  @Test
  void aConnectWaitsWhileNoneAreAccepted() throws Exception {
    serve(builder -> builder.accepting(false));
    CompletableFuture<ByteStream> first = client.connect(SERVER, LIMIT, TimeUnit.SECONDS);
    assertTrue(ReceivingThreadsFixture.eventually(() -> server.waitingClients() == 1));
    server.setAccepting(true);
    assertTrue(get(first).isOpen());
    server.setAccepting(false);
    CompletableFuture<ByteStream> second = client.connect(SERVER, LIMIT, TimeUnit.SECONDS);
    assertTrue(ReceivingThreadsFixture.eventually(() -> server.waitingClients() == 1));
    server.refuseAll();
    assertInstanceOf(ConnectException.class, failure(second));
  }

  @Test
  void aConnectThatIsCancelledLeavesNoStream() throws Exception {
    serve(builder -> builder.accepting(false));
    CompletableFuture<ByteStream> late = client.connect(SERVER, LIMIT, TimeUnit.SECONDS);
    assertTrue(ReceivingThreadsFixture.eventually(() -> server.waitingClients() == 1));
    late.cancel(false);
    server.setAccepting(true);
    assertEquals(0, read(accepted(), 1).length);
    assertTrue(ReceivingThreadsFixture.eventually(() -> client.streams().isEmpty()));
  }

  @Test
  void aConnectThatIsCancelledEndsAtOnce() throws Exception {
    try (Service deaf = serverContext.register()) {
      CompletableFuture<ByteStream> never = client.connect(deaf.id(), 0, TimeUnit.SECONDS);
      assertEquals(1, client.streams().size());
      never.cancel(false);
      assertTrue(ReceivingThreadsFixture.eventually(() -> client.streams().isEmpty()));
    }
  }

  @Test
  void aConnectDuringRefuseAllIsRefused() throws Exception {
    serve(
        builder ->
            builder.access(
                id -> {
                  server.refuseAll();
                  return true;
                }));
    Throwable refused = failure(client.connect(SERVER, LIMIT, TimeUnit.SECONDS));
    assertInstanceOf(ConnectException.class, refused);
    assertTrue(refused.getMessage().contains("is stopping"), refused.getMessage());
    assertTrue(opened.isEmpty());
  }

  @Test
  void aConnectEndsWithItsTime() throws Exception {
    try (Service deaf = serverContext.register()) {
      assertInstanceOf(
          SocketTimeoutException.class,
          failure(client.connect(deaf.id(), 50, TimeUnit.MILLISECONDS)));
    }
  }

  @Test
  void anAcceptorThatFailsEndsTheStream() throws Exception {
    serve(
        builder ->
            builder.acceptor(
                stream -> {
                  throw new IllegalStateException("as a test wants it");
                }));
    assertInstanceOf(
        ConnectException.class, failure(client.connect(SERVER, LIMIT, TimeUnit.SECONDS)));
  }

  @Test
  void anErrorOfTheAccessCheckRefusesTheStreamsThatWaitForIt() throws Exception {
    serve(
        builder ->
            builder.access(
                id -> {
                  throw new AssertionError("as a test wants it");
                }));
    for (int attempt = 0; attempt < 2; ++attempt) {
      assertInstanceOf(
          ConnectException.class, failure(client.connect(SERVER, LIMIT, TimeUnit.SECONDS)));
    }
  }

  @Test
  void anErrorOfTheCheckOfThePeerRefusesTheStream() throws Exception {
    serve(
        builder ->
            builder.peerAccess(
                peer -> {
                  throw new AssertionError("as a test wants it");
                }));
    assertInstanceOf(
        ConnectException.class, failure(client.connect(SERVER, LIMIT, TimeUnit.SECONDS)));
  }
}
