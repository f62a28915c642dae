package headrace;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Iterator;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log: a commit is written where there is none of its version, or fails, whoever else commits, and only while
 * the server has its lease.
 */
public class LeasedLogStore extends HadoopFileSystemLogStore {
  private static MappedByteBuffer permit;

  public LeasedLogStore(Configuration conf) throws IOException {
    super(conf);
    read(conf.get("headrace.permit"));
  }

  /** One for all tables. */
  private static synchronized void read(String file) throws IOException {
    if (file != null && permit == null) {
      FileChannel channel = FileChannel.open(Paths.get(file), StandardOpenOption.READ);
      MappedByteBuffer found = channel.map(FileChannel.MapMode.READ_ONLY, 0L, 8L);
      found.order(ByteOrder.LITTLE_ENDIAN);
      channel.close();
      permit = found;
    }
  }

  public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
    // Python's time.monotonic and this are the same clock.
    if (permit != null && System.nanoTime() >= permit.getLong(0)) {
      throw new IOException("the warehouse's lease was not renewed in time: nothing is committed to " + path);
    }
    String scheme = path.toUri().getScheme();
    if (scheme == null || scheme.equals("file")) {
      link(Paths.get(path.toUri().getPath()), actions, overwrite.booleanValue());
    } else {
      put(path, actions, overwrite.booleanValue(), conf);
    }
  }

  /** A link is made where there is nothing of its name, or not at all. */
  private void link(java.nio.file.Path target, Iterator actions, boolean overwrite) throws IOException {
    java.nio.file.Path draft = target.resolveSibling("." + target.getFileName() + "." + UUID.randomUUID());
    try {
      OutputStream out = Files.newOutputStream(draft, new StandardOpenOption[] {StandardOpenOption.CREATE_NEW});
      write(out, actions);
      if (overwrite) {
        Files.move(
            draft,
            target,
            new StandardCopyOption[] {StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING});
      } else {
        Files.createLink(target, draft);
      }
    } finally {
      Files.deleteIfExists(draft);
    }
  }

  private void put(Path path, Iterator actions, boolean overwrite, Configuration conf) throws IOException {
    FileSystem store = path.getFileSystem(conf);
    FSDataOutputStreamBuilder builder = store.createFile(path);
    builder.overwrite(true); // the store itself looks for what is there, as it takes the object
    if (!overwrite) {
      builder.must("fs.option.create.conditional.overwrite", true);
    }
    try {
      write((OutputStream) builder.build(), actions);
    } catch (IOException lost) {
      // S3A's, by name: its library is there only where tables are in an object store.
      if (!lost.getClass().getSimpleName().equals("RemoteFileChangedException")) {
        throw lost;
      }
      FileAlreadyExistsException exists = new FileAlreadyExistsException(path.toString());
      exists.initCause(lost);
      throw exists;
    }
  }

  /** Closes what it wrote to only where all of it is there: closing makes an object. */
  private void write(OutputStream out, Iterator actions) throws IOException {
    byte[] end = "\n".getBytes(StandardCharsets.UTF_8);
    BufferedOutputStream buffered = new BufferedOutputStream(out, 1 << 16);
    while (actions.hasNext()) {
      buffered.write(((String) actions.next()).getBytes(StandardCharsets.UTF_8));
      buffered.write(end);
    }
    buffered.close();
  }

  public Boolean isPartialWriteVisible(Path path, Configuration conf) {
    return Boolean.FALSE;
  }
}
