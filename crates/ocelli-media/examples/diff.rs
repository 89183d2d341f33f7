//! throwaway
use ocelli_media::*;
use sha2::{Digest, Sha256};
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args[0] == "bench" {
        for f in &args[1..] {
            let b = std::fs::read(f).unwrap();
            for mode in [ReadingMode::AsSglang, ReadingMode::AsViewed] {
                let mut t = vec![];
                for _ in 0..25 {
                    let s = std::time::Instant::now();
                    let p = decode_image(&b, &ImageLimits::default(), mode).unwrap();
                    t.push(s.elapsed().as_secs_f64() * 1e3);
                    std::hint::black_box(&p);
                }
                t.sort_by(f64::total_cmp);
                println!("{f} {mode:?} median {:.2} ms min {:.2}", t[12], t[0]);
            }
        }
        return;
    }
    let mut names: Vec<_> = std::fs::read_dir(&args[0]).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    for n in names {
        let b = std::fs::read(&n).unwrap();
        for mode in [ReadingMode::AsSglang, ReadingMode::AsViewed] {
            let r = decode_image(&b, &ImageLimits::default(), mode);
            let f = n.file_name().unwrap().to_str().unwrap();
            match r {
                Ok(p) => {
                    let h: String = Sha256::digest(p.pixels()).iter().map(|x| format!("{x:02x}")).collect();
                    if args.len() > 1 { std::fs::write(format!("{}/{f}.{mode:?}.rgb", args[1]), p.pixels()).unwrap(); }
                    println!("{f}\t{mode:?}\t{}x{}\t{h}", p.width(), p.height());
                }
                Err(e) => println!("{f}\t{mode:?}\tERR\t{e}"),
            }
        }
    }
}
