// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.eclipse.jetty.http.content.CachingHttpContentFactory;
import org.eclipse.jetty.http.content.FileMappingHttpContentFactory;
import org.eclipse.jetty.http.content.HttpContent;
import org.eclipse.jetty.io.ArrayByteBufferPool;
import org.eclipse.jetty.io.ByteBufferPool;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.handler.ResourceHandler;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.resource.ResourceFactory;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.RegisteredBuffer;
import org.libripc.Ripc;
import org.libripc.RipcBuilder;
import org.libripc.stream.StreamOptions;

/** Files that are sent from where they lie, and who owns their memory meanwhile. */
@Tag("jna")
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"shm", "socket"})
class ContentFactoryTest extends HttpPairTest {
  private static final int MIDDLE = 100_000; // would be copied if it were not given away
  private static final int LARGE = 5_000_000; // more than a window

  private long keepReleased = 64 << 20;
  private final List<CachingHttpContentFactory> caches = new ArrayList<>();
  private Path files;

  @Override
  RipcBuilder options() {
    return Ripc.builder().keepReleased(keepReleased);
  }

  @BeforeEach
  void writeFiles() throws IOException {
    files = Files.createDirectory(directory.resolve("files"));
    for (int size : new int[] {MIDDLE, LARGE})
      Files.write(files.resolve("f" + size), pattern(size, size));
  }

  private void serve(Handlers.Contents contents) throws Exception {
    start(
        Handlers.files(
            files,
            (cached, read) -> {
              caches.add((CachingHttpContentFactory) cached);
              return contents.of(cached, read);
            }));
  }

  /** What Jetty leaves in its cache would be reported as a leak during another test. */
  private void emptyCaches() {
    caches.forEach(CachingHttpContentFactory::flushCache);
  }

  private void get(int size) throws Exception {
    assertArrayEquals(pattern(size, size), new HttpTest().send(request("/f" + size)).getContent());
  }

  private long copied() {
    return ((RipcConnector) connector).getCopiedBytes();
  }

  private static String line(int size) {
    return "GET /f" + size + " HTTP/1.1\r\nHost: a\r\n\r\n";
  }

  /** Descriptors of this process for the files. */
  private long openFiles() {
    try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
      return all.filter(this::isOfTheFiles).count();
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    }
  }

  private boolean isOfTheFiles(Path descriptor) {
    try {
      return Files.readSymbolicLink(descriptor).startsWith(files);
    } catch (IOException closed) {
      return false;
    }
  }

  @Test
  void aFileThatIsReadForEachRequestIsNotCopied() throws Exception {
    serve((cached, read) -> new RipcContentFactory(read));
    get(MIDDLE);
    get(LARGE);
    assertEquals(0, copied());
  }

  @Test
  void aFileThatWouldBeMappedIsNotCopied() throws Exception {
    serve(
        (cached, read) ->
            new RipcContentFactory(new FileMappingHttpContentFactory(read, 1000, 2 << 20)));
    get(MIDDLE);
    get(LARGE);
    assertEquals(0, copied());
  }

  @Test
  void aFileOfTheCacheIsNotCopiedHoweverSmall() throws Exception {
    serve((cached, read) -> new RipcContentFactory(cached));
    for (int count = 0; count < 3; ++count) get(MIDDLE);
    assertEquals(0, copied());
    emptyCaches();
  }

  @Test
  void theAnswerKeepsAFileThatDropsOutOfTheCache() throws Exception {
    serve((cached, read) -> new RipcContentFactory(cached));
    get(MIDDLE);
    try (RawConnection connection = raw()) {
      connection.write(line(MIDDLE));
      RipcEndPoint endPoint = ((RawConnection.Stream) connection).endPoint;
      assertTrue(eventually(() -> endPoint.toEndPointString().contains("ready=1")), "it is here");
      emptyCaches();
      overwriteFreeMemory(MIDDLE);
      assertArrayEquals(pattern(MIDDLE, MIDDLE), connection.readBody(MIDDLE));
    }
  }

  @Test
  void aFileThatDropsOutOfTheCacheBeforeItIsWrittenIsReadAgain() throws Exception {
    serve(
        (cached, read) ->
            path -> {
              HttpContent content = new RipcContentFactory(cached).getContent(path);
              emptyCaches();
              return content;
            });
    get(MIDDLE);
    get(LARGE);
  }

  @Test
  void theAnswerKeepsAPieceThatWasReadForIt() throws Exception {
    serve((cached, read) -> new RipcContentFactory(read));
    try (RawConnection connection = raw()) {
      connection.write(line(MIDDLE));
      RipcEndPoint endPoint = ((RawConnection.Stream) connection).endPoint;
      assertTrue(eventually(() -> endPoint.toEndPointString().contains("ready=1")), "it is here");
      overwriteFreeMemory(MIDDLE);
      assertArrayEquals(pattern(MIDDLE, MIDDLE), connection.readBody(MIDDLE));
    }
  }

  private void overwriteFreeMemory(int size) {
    List<RegisteredBuffer> leases = new ArrayList<>();
    for (int count = 0; count < 20; ++count) {
      RegisteredBuffer lease = serverContext.lease(size);
      ByteBuffer bytes = lease.buffer();
      while (bytes.hasRemaining()) bytes.put((byte) 0x55);
      leases.add(lease);
    }
    leases.forEach(RegisteredBuffer::release);
  }

  @Test
  void aClientThatDoesNotReadHoldsNoMoreThanAWindowAndAPiece() throws Exception {
    keepReleased = 0;
    serve((cached, read) -> new RipcContentFactory(read));
    try (RawConnection idle = raw()) {
      long before = leasedAfterCollection();
      idle.write(line(LARGE));
      int window = StreamOptions.DEFAULT.window();
      assertTrue(
          eventually(() -> serverContext.poolStatistics().leased() - before >= window),
          "it has filled the window");
      long most = window + (window / 4) + (64 << 10);
      assertTrue(
          eventually(() -> leasedAfterCollection() - before <= most),
          () -> before + " bytes before, then " + serverContext.poolStatistics());
      assertArrayEquals(pattern(LARGE, LARGE), idle.readBody(LARGE));
      assertEquals(0, copied());
    }
  }

  @Test
  void theMemoryComesBackWhenTheClientVanishesInTheMidst() throws Exception {
    keepReleased = 0;
    serve((cached, read) -> new RipcContentFactory(read));
    long leaks = Ripc.leaksReported();
    RawConnection connection = raw();
    long before = leasedAfterCollection();
    connection.write(line(LARGE));
    assertTrue(connection.read(new byte[1000]) > 0);
    assertEquals(1, openFiles());
    connection.close();
    assertMemoryIsBack(before, leaks);
    assertTrue(eventually(() -> openFiles() == 0), "the file is closed");
    get(MIDDLE);
  }

  @Test
  void aFileThatBecomesShorterWhileItIsSentBreaksTheAnswerOff() throws Exception {
    keepReleased = 0;
    serve((cached, read) -> new RipcContentFactory(read));
    try (RawConnection connection = raw()) {
      connection.write(line(LARGE));
      assertTrue(connection.read(new byte[1000]) > 0);
      try (FileChannel file =
          FileChannel.open(files.resolve("f" + LARGE), StandardOpenOption.WRITE)) {
        file.truncate(3_000_000);
      }
      assertThrows(
          IOException.class,
          () -> {
            if (connection.readBody(LARGE).length < LARGE) throw new IOException("it ended early");
          });
    }
    assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()));
    assertTrue(eventually(() -> openFiles() == 0), "the file is closed");
    get(MIDDLE);
  }

  @Test
  void aFileThatIsGoneIsAnErrorOfTheServer() throws Exception {
    serve(
        (cached, read) ->
            path -> {
              HttpContent content = new RipcContentFactory(read).getContent(path);
              if (path.endsWith("" + MIDDLE)) Files.deleteIfExists(files.resolve("f" + MIDDLE));
              return content;
            });
    assertEquals(500, new HttpTest().send(request("/f" + MIDDLE)).getStatus());
    get(LARGE);
  }

  @Test
  void aWrapperMayWriteOtherBytes() throws Exception {
    byte[] other = pattern(MIDDLE, 7);
    serve(
        (cached, read) ->
            new RipcContentFactory(
                path ->
                    new HttpContent.Wrapper(read.getContent(path)) {
                      @Override
                      public void writeTo(
                          Content.Sink sink, long offset, long length, Callback callback) {
                        sink.write(true, ByteBuffer.wrap(other), callback);
                      }
                    }));
    assertArrayEquals(other, new HttpTest().send(request("/f" + MIDDLE)).getContent());
  }

  @Test
  void aCacheInOtherMemoryThanThePoolsIsServedAsWithoutIt() throws Exception {
    ResourceHandler resources =
        new ResourceHandler(null, new ByteBufferPool.Sized(new ArrayByteBufferPool(), true, 4096)) {
          @Override
          protected HttpContent.Factory newHttpContentFactory(ByteBufferPool.Sized pool) {
            return new RipcContentFactory(super.newHttpContentFactory(pool));
          }
        };
    resources.setBaseResource(ResourceFactory.root().newResource(files));
    start(resources);
    for (int count = 0; count < 2; ++count) get(MIDDLE);
    assertTrue(copied() >= 2 * MIDDLE, () -> copied() + " bytes were copied");
  }

  @Test
  void overHttp2FilesAreWhole() throws Exception {
    startServer(
        Handlers.files(files, (cached, read) -> new RipcContentFactory(read)), ignored -> {});
    startHttp2Client();
    get(MIDDLE);
    get(LARGE);
  }

  @Test
  void bytesThatAnotherHandlerChangesAreSent() throws Exception {
    Handler.Wrapper inverting =
        new Handler.Wrapper(Handlers.files(files, (cached, read) -> new RipcContentFactory(read))) {
          @Override
          public boolean handle(Request request, Response response, Callback callback)
              throws Exception {
            return super.handle(request, new Inverting(request, response), callback);
          }
        };
    start(inverting);
    byte[] inverted = pattern(LARGE, LARGE);
    for (int index = 0; index < LARGE; ++index) inverted[index] = (byte) ~inverted[index];
    assertArrayEquals(inverted, new HttpTest().send(request("/f" + LARGE)).getContent());
  }

  /** Inverts the bits. */
  private static final class Inverting extends Response.Wrapper {
    Inverting(Request request, Response response) {
      super(request, response);
    }

    @Override
    public void write(boolean last, ByteBuffer bytes, Callback callback) {
      ByteBuffer inverted = ByteBuffer.allocate(bytes.remaining());
      while (bytes.hasRemaining()) inverted.put((byte) ~bytes.get());
      super.write(last, inverted.flip(), callback);
    }
  }
}
