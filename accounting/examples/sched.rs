use damper_accounting::pld::*;
use damper_core::accounting::event::*;
fn main(){
  for (name,m) in [("poly",(1..=10000).map(|t|1.0*(20.0+t as f64).powf(0.25)/2.2).collect::<Vec<f64>>()),
   ("linear",(1..=10000).map(|t|0.3/(0.1-(0.1-1e-10)*(t as f64/1e4).sqrt()).sqrt()).collect()),
   ("mild",(1..=10000).map(|t|0.7+t as f64*1e-4).collect()),
   ("few",(1..=10000).map(|t|0.7+(t%20) as f64*1e-2).collect())]{
  let r=Rate::at_most(0.00512).unwrap();
  let ev:Vec<_>=m.iter().map(|s|(Event::new(r,*s).unwrap(),1)).collect();
  let t=std::time::Instant::now();
  let up=epsilon(&ev,Neighbours::AddOrRemove,1e-5).unwrap(); let t1=t.elapsed();
  // lower: round multipliers up to 0.1 %
  let lo:Vec<_>=m.iter().map(|s|{let l=(s.ln()/0.002).ceil()*0.002;(Event::new(r,l.exp()).unwrap(),1)}).collect();
  let lo2=epsilon(&lo,Neighbours::AddOrRemove,1e-5).unwrap();
  println!("{name} {up} {t1:?} up-rounded multipliers: {lo2}");}
  let ev:Vec<_>=(0..10000).map(|t|(Event::new(Rate::at_most(0.002+t as f64*1e-6).unwrap(),1.0+t as f64*1e-4).unwrap(),1)).collect();
  let t=std::time::Instant::now();
  println!("both {} {:?}",epsilon(&ev,Neighbours::AddOrRemove,1e-5).unwrap(),t.elapsed());
}
