// SPDX-License-Identifier: Apache-2.0
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.concurrent.TimeUnit;
import org.eclipse.jetty.client.HttpClient;
import org.eclipse.jetty.client.InputStreamResponseListener;
import org.eclipse.jetty.client.Response;
import org.libripc.Ripc;
import org.libripc.jetty.RipcClient;

public final class JettyFetch {
  public static void main(String[] arguments) throws Exception {
    try (Ripc ripc = Ripc.open()) {
      RipcClient services = new RipcClient(ripc);
      HttpClient client = new HttpClient();
      client.addBean(services); // started and stopped with the client
      client.start();
      InputStreamResponseListener listener = new InputStreamResponseListener();
      client
          .newRequest("http://" + arguments[0] + arguments[1])
          .transport(services.transport(arguments[0]))
          .send(listener);
      Response response = listener.get(10, TimeUnit.SECONDS);
      try (InputStream content = listener.getInputStream()) {
        Path file = Path.of(arguments[2]);
        long bytes = Files.copy(content, file, StandardCopyOption.REPLACE_EXISTING);
        System.out.println(
            "JettyFetch: " + arguments[1] + ": " + response.getStatus() + ", " + bytes + " bytes");
      }
      client.stop();
    }
  }
}
