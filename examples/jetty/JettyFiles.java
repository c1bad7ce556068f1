// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.nio.file.Path;
import org.eclipse.jetty.http.content.HttpContent;
import org.eclipse.jetty.http.content.ResourceHttpContentFactory;
import org.eclipse.jetty.io.ByteBufferPool;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.ResourceHandler;
import org.eclipse.jetty.util.resource.ResourceFactory;
import org.eclipse.jetty.util.thread.QueuedThreadPool;
import org.libripc.Ripc;
import org.libripc.jetty.RipcByteBufferPool;
import org.libripc.jetty.RipcConnector;
import org.libripc.jetty.RipcContentFactory;

public final class JettyFiles {
  private static final int DEFAULT_PIECES = 32 << 10; // Jetty's default

  public static void main(String[] arguments) throws Exception {
    try (Ripc ripc = Ripc.open()) {
      // Content in buffers of this pool is sent without a copy, including the cache of static
      // files.
      Server server = new Server(new QueuedThreadPool(), null, new RipcByteBufferPool(ripc));
      server.addConnector(new RipcConnector(server, ripc, arguments[1]));
      ServerConnector tcp = new ServerConnector(server);
      tcp.setHost("127.0.0.1");
      if (arguments.length > 2) {
        tcp.setPort(Integer.parseInt(arguments[2]));
        server.addConnector(tcp);
      }
      boolean cached = arguments.length <= 3 || !arguments[3].equals("uncached");
      int pieces = arguments.length > 4 ? Integer.parseInt(arguments[4]) : DEFAULT_PIECES;
      ResourceHandler files =
          new Files(cached, new ByteBufferPool.Sized(server.getByteBufferPool(), true, pieces));
      files.setBaseResource(ResourceFactory.of(server).newResource(Path.of(arguments[0])));
      files.setDirAllowed(true);
      server.setHandler(files);
      try {
        server.start();
        System.out.println(
            "JettyFiles: serving" + (tcp.isStarted() ? " " + tcp.getLocalPort() : ""));
        awaitEnd();
      } finally {
        server.stop();
      }
    }
  }

  private static final class Files extends ResourceHandler {
    private final boolean cached;

    Files(boolean cached, ByteBufferPool.Sized pieces) {
      super(null, pieces);
      this.cached = cached;
    }

    @Override
    protected HttpContent.Factory newHttpContentFactory(ByteBufferPool.Sized pool) {
      // Sends files over libripc from where they lie.
      return new RipcContentFactory(
          cached
              ? super.newHttpContentFactory(pool)
              : new ResourceHttpContentFactory(getBaseResource(), getMimeTypes(), pool));
    }
  }

  private static void awaitEnd() throws IOException {
    while (System.in.read() >= 0) {}
  }
}
